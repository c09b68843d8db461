"""Firmware in C, in oh-my-pi, partly in German."""

from planted.filler import Filler
from planted.heldout import HELD_OUT
from planted.script import Script
from planted.talk import GERMAN

GOAL = "OTA-Update über BLE in src/ota/ble_transport.c fertig machen, mit Tests auf native_sim"

CODE = (
    "static int {word}_{other}(struct {word}_ctx *ctx, const uint8_t *buf, size_t len)",
    "    if (len > CONFIG_{word}_MAX) {{",
    "        return -EMSGSIZE;",
    '    LOG_DBG("{word} {other} %u", ctx->{word});',
    "    k_mutex_lock(&ctx->{other}_lock, K_FOREVER);",
    "    /* {word} gehört dem Aufrufer, siehe {other} */",
    "",
    '#include "{word}/{other}.h"',
    "ZTEST({word}_suite, test_{other}_{n})",
)

CHATTER = [
    "Ich sehe mir zuerst den Transport und die Slots an.",
    "Let me look at the header of the image.",
    "Der Header ist 32 Byte lang, little endian.",
    "Now the flash driver.",
    "Ich baue einmal, damit ich weiß, dass der Stand sauber ist.",
    "Build läuft durch, 0 Warnungen.",
    "Jetzt der GATT-Service.",
    "Die Charakteristiken sind alle da, nur die Notification fehlte.",
    "Let me run the simulator tests.",
    "Alle 27 Tests grün auf native_sim.",
    "Ich räume noch die Includes auf.",
    "Fertig, clang-format ist zufrieden.",
    "Let me check the devicetree overlay.",
    "Das Overlay stimmt mit dem Schaltplan überein.",
    "Ich schreibe den Test für den Zustandsautomaten.",
    "Der Automat hat jetzt für jeden Übergang einen Test.",
    "Now I look at the log of the last field test.",
    "Im Log ist nichts Auffälliges.",
    "Die Größe des Images hat sich um 212 Byte erhöht.",
    "Kconfig ist angepasst.",
]


def build(with_held_out: bool = False, variant: int = 0) -> Script:
    """An update over the air."""
    s = Script("firmware", "omp", "/home/dev/heizwacht-fw", GOAL, 14, variant)
    extra = HELD_OUT["firmware"] if with_held_out else {}
    fill = Filler(
        s,
        files=(
            "src/ota/ble_transport.c", "src/ota/ble_transport.h", "src/ota/slots.c",
            "src/ota/header.c", "src/ble/gatt_ota.c", "tests/ota/src/main.c", "prj.conf",
            "boards/heizwacht_v2.overlay",
        ),
        words=("ota", "slot", "block", "flash", "gatt", "header", "image", "offset"),
        code=CODE,
        tests=(
            "west twister -p native_sim -T tests/ota",
            "INFO - {n} of {n} test configurations passed (100.00%)",
        ),
        chatter=list(CHATTER),
        talk=GERMAN,
        log="<inf> {word}: {other} {n} geschrieben",
    )  # fmt: skip

    s.user(
        "Moin, wir brauchen das Firmware-Update über BLE. Der Transport steht halb in"
        " src/ota/ble_transport.c.\nWichtig: der Bootloader bleibt, wie er ist, an die 900 Geräte im"
        " Feld kommen wir per Kabel nicht mehr ran."
    ).keep("constraint", r"Bootloader", r"bleibt|900 Geräte|im Feld")
    fill.work(8)
    s.agent(
        "Der Transport empfängt Blöcke und legt sie in einen Ringpuffer, geschrieben wird noch nichts."
        " Es fehlen das Schreiben in Slot B, die Prüfung und der Abschluss."
    )
    s.user("genau. Slot B liegt ab 0x0A0000")
    s.avoid("superseded number", r"0x0A0000", unless=r"0x0C0000|Muster")
    s.edit("boards/heizwacht_v2.overlay", "reg = <0x0 0x0>;", "reg = <0x0A0000 0x60000>;")
    s.user("und kein malloc in der Transportschicht, das geht bei uns durch kein MISRA-Review")
    s.keep("constraint", r"malloc", r"kein|MISRA|Transport")
    if 0 in extra:
        extra[0](s)
    fill.work(6)
    s.todos(
        ("Parser für den Image-Header", "pending"),
        ("Blöcke in Slot B schreiben", "in_progress"),
        ("Watchdog füttern, während die Sektoren gelöscht werden", "pending"),
    )
    s.agent("Als Nächstes schreibe ich den Parser für den Image-Header.")
    s.avoid("done since", r"Parser für den Image-Header", unless=r"Done|fertig|steht|completed")
    fill.work(5)
    s.shell(
        "west twister -p native_sim -T tests/ota",
        "FAILED tests/ota/src/main.c:118: test_third_block: block differs\n1 of 27 failed",
        1,
    )
    s.agent(
        "Zero-copy geht leider nicht: nach dem dritten Block kam Müll an, weil der Stack den"
        " L2CAP-Puffer schon wieder vergibt, bevor der Flash fertig geschrieben hat. Ich kopiere jetzt"
        " in zwei feste Puffer."
    ).keep("failed attempt", r"zero.copy", r"L2CAP|geht leider nicht|Müll")
    s.edit("src/ota/ble_transport.c", "ctx->buf = net_buf_pull(b)", "memcpy(ctx->pool[i], b, len)")
    s.shell("west twister -p native_sim -T tests/ota", "INFO - 27 of 27 test configurations passed")
    s.user("gut. was ist mit der prüfsumme, sha pro block ist mir zu langsam auf dem m0")
    s.agent("SHA-256 kostet dort 41 ms je Block, CRC32 unter einer.")
    s.user("dann CRC32 pro Block, die Signatur über das ganze Image reicht als Schutz")
    s.keep("decision", r"CRC32", r"Signatur|reicht|dann")
    fill.work(6)
    s.create("src/ota/header.c", fill.source(45))
    s.agent("Der Header-Parser steht, 5 Tests dazu.")
    if 1 in extra:
        extra[1](s)
    s.shell("python tools/sniff.py --dongle nrf52840 --seconds 60", fill.pasted(80))
    s.agent(
        "Gemessen mit dem Sniffer: 18,4 kB/s bei einer MTU von 247. Sobald das iPhone auf 185"
        " herunterhandelt, sind es nur noch 3,1 kB/s."
    ).keep("number", r"18,4 kB/s|3,1 kB/s", r"MTU|247|iPhone|185")
    s.user("hm das ist wenig. egal erstmal")
    fill.work(5)
    s.user(
        "das Connection Interval zu erhöhen bringt übrigens nix, hatten wir letztes Jahr, da sind die"
        " Thermostate der ersten Serie reihenweise rausgeflogen"
    ).keep("failed attempt", r"Connection Interval", r"bringt|letztes Jahr|rausgeflogen")
    s.agent("Alles klar, dann lasse ich es bei 30 ms.")
    if 2 in extra:
        extra[2](s)
    fill.work(5)
    s.todos(
        ("Parser für den Image-Header", "completed"),
        ("Blöcke in Slot B schreiben", "completed"),
        ("Watchdog füttern, während die Sektoren gelöscht werden", "pending"),
    ).keep("todo", r"Watchdog", r"Sektoren|lösch", unless=r"^- Done")
    s.user(
        "ich muss mich korrigieren, Slot B fängt bei 0x0C0000 an. Was ich dir gegeben hatte, galt nur"
        " für die Muster"
    ).keep("revision", r"0x0C0000", r"Slot B")
    s.edit("boards/heizwacht_v2.overlay", "<0x0A0000 0x60000>", "<0x0C0000 0x60000>")
    s.shell("west build -b heizwacht_v2", "[187/187] Linking C executable zephyr/zephyr.elf")
    fill.work(5)
    s.agent(
        "Was soll eigentlich gelten, wenn die Verbindung zwischen 100 % und dem Reboot abreißt? Die App"
        " zeigt da schon einen Haken, das Gerät würde das Image aber verwerfen."
    ).keep("open question", r"100 %|Haken", r"Reboot|verwerfen|abreißt")
    s.user("gute frage, das muss ich mit Jonas klären")
    if 3 in extra:
        extra[3](s)
    fill.work(4)
    s.user("kannst du noch die Doku vom GATT-Service nachziehen?")
    s.create("docs/gatt_ota.md", fill.source(30))
    s.agent("Ist drin, `docs/gatt_ota.md`.")
    if 4 in extra:
        extra[4](s)
    s.agent(
        "Für den nächsten Schritt würde ich den Fortsetzungs-Offset in die NVS-Partition legen, damit"
        " ein Neustart mitten im Update nicht wieder bei null anfängt."
    ).keep("next step", r"Offset", r"NVS|Neustart")
    s.user("ja klingt gut, aber nicht mehr heute")
    return s
