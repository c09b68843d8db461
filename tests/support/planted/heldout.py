"""Facts that no one tunes to: they are planted only when asked for."""

from collections.abc import Callable

from planted.script import Script

Planting = Callable[[Script], object]


def user(text: str, kind: str, *needs: str, reply: str = "") -> Planting:
    """The user says it; the agent may answer."""

    def plant(script: Script) -> None:
        script.user(text).keep(kind, *needs, held_out=True)
        if reply:
            script.agent(reply)

    return plant


def agent(text: str, kind: str, *needs: str, reply: str = "") -> Planting:
    """The agent says it; the user may answer."""

    def plant(script: Script) -> None:
        script.agent(text).keep(kind, *needs, held_out=True)
        if reply:
            script.user(reply)

    return plant


HELD_OUT: dict[str, dict[int, Planting]] = {
    "backend": {
        0: user(
            "keep in mind that our db user can't create extensions over there, DBAs want a ticket"
            " per extension",
            "constraint", r"extensions?", r"can't|ticket|DBA",
        ),
        1: agent(
            "The p95 of the handler went from 61 ms to 74 ms with the extra insert, measured over"
            " 5,000 requests.",
            "number", r"74 ms|61 ms", r"p95|handler|insert",
        ),
        2: agent(
            "I gave the refunds their own table rather than a type column, because they come with"
            " a second currency.",
            "decision", r"refunds?", r"own table|type column|currency",
        ),
        3: user(
            "someone has to tell support about it too, their macro still promises the money within"
            " two days",
            "todo", r"support|macro", r"two days|tell",
            reply="Good point, that's outside of the repository though.",
        ),
        4: agent(
            "Next time I'd log the isolation level per connection, then we'd see whether pgbouncer"
            " hands out a serializable one.",
            "next step", r"isolation level", r"log|pgbouncer",
        ),
    },
    "mobile": {
        0: user(
            "oh and anna wants the old download format readable for 2 more releases",
            "constraint", r"format", r"2 more releases|readable",
        ),
        1: agent(
            "I tried to draw the progress ring with a shader, it looked great and cost 9 fps on the"
            " Moto G, so the plain arc is back.",
            "failed attempt", r"shader", r"9 fps|arc|Moto",
        ),
        2: user(
            "lets keep max 3 regions at a time, more than that and the phone gets hot",
            "decision", r"3 regions", r"max|hot",
        ),
        3: agent(
            "A cold start with 5 regions on disk needs 1.9 s until the map is drawn, of which 0.8 s"
            " goes into counting files.",
            "number", r"1\.9 s|0\.8 s", r"cold start|counting|map",
        ),
        4: user(
            "wait does the ios build even share that code? never looked",
            "open question", r"ios", r"share",
            reply="It shares the queue, the service is Android only.",
        ),
    },
    "pipeline": {
        0: user(
            "The readings before 2019 are off limits by the way, legal has them under a hold.",
            "constraint", r"2019", r"off limits|legal|hold",
        ),
        1: agent(
            "Compression is zstd at level 3: level 9 saved only 4 % more and took twice as long.",
            "decision", r"zstd|level 3", r"4 %|twice|level",
        ),
        2: user(
            "And the alert should go to the energy-ops channel now, not to my mail any more.",
            "revision", r"energy-ops", r"alert|mail|channel",
        ),
        3: agent(
            "Sorting the readings before the join made it worse, 133 minutes instead of 118, since"
            " it spills to disk twice.",
            "failed attempt", r"sort", r"worse|133|spills",
        ),
        4: agent(
            "Whoever carries on: the scratch folder on /mnt/fast has to be emptied by hand before"
            " the next full run, the job doesn't do it.",
            "todo", r"scratch|/mnt/fast", r"emptied|by hand",
        ),
    },
    "firmware": {
        0: user(
            "die Sache muss in 192 KB RAM passen, mehr hat die v1 nicht",
            "constraint", r"192 KB", r"RAM|passen|v1",
        ),
        1: agent(
            "Das Löschen des ganzen Slots dauert 2,7 s, pro Sektor sind es 28 ms.",
            "number", r"2,7 s|28 ms", r"Lösch|Slot|Sektor",
        ),
        2: agent(
            "Ich quittiere nur jeden achten Block, weil jede Notification ein Connection Event"
            " kostet.",
            "decision", r"achten Block", r"quittier|Notification|Event",
        ),
        3: user(
            "ach und die Seriennummer kommt jetzt doch aus dem OTP und nicht aus dem Flash",
            "revision", r"Seriennummer", r"OTP",
            reply="Ok, merke ich mir.",
        ),
        4: agent(
            "Ein Test ist noch rot: `test_resume_after_reset` bekommt `-EILSEQ`, aber nur im"
            " Release-Build.",
            "unsolved error", r"test_resume_after_reset|EILSEQ", r"EILSEQ|rot|Release",
        ),
    },
    "infra": {
        0: user(
            "And nothing gets applied between Thursday noon and Monday, the testers run their"
            " regression then.",
            "constraint", r"Thursday", r"applied|nothing|regression",
        ),
        1: agent(
            "I went for gp3 volumes with the default 3,000 IOPS, the old io1 ones never got above"
            " 900.",
            "decision", r"gp3", r"3,000|IOPS|io1|900",
        ),
        2: agent(
            "The certificate in the load balancer runs out on 14 February, and it isn't renewed"
            " automatically because it was uploaded by hand.",
            "number", r"14 February", r"certificate|runs out|renew",
        ),
        3: user(
            "are we sure the old workspace isn't locked by somebody's laptop?",
            "open question", r"workspace", r"locked|laptop",
            reply="I can only see that there is a lock, not whose.",
        ),
        4: user(
            "hm, strike what I said about leaving the NAT gateway as it is, we may use a NAT instance",
            "revision", r"NAT (instance|gateway)", r"strike|may use|instance",
        ),
    },
}  # fmt: skip
