"""A mobile app in Dart, in pi, with a user who types fast."""

from planted.filler import Filler
from planted.heldout import HELD_OUT
from planted.script import Script
from planted.talk import SLOPPY

GOAL = (
    "get offline map downloads to survive the app being killed and show the right progress in"
    " lib/map/download_sheet.dart"
)

CODE = (
    "  Future<{word}> load{other}(String id) async {{",
    "    final {word} = await _db.query('{other}', where: 'id = ?', whereArgs: [id]);",
    "    if (!mounted) return;",
    "    setState(() => _{word} = {other});",
    "  }}",
    "import 'package:trailmate/{word}/{other}.dart';",
    "      child: Text(context.l10n.{word}{other}),",
    "",
    "    ref.listen({word}Provider, (_, next) => _on{other}(next));",
)

CHATTER = [
    "Let me look at the download manager.",
    "I'll check how the sheet gets its progress.",
    "The sheet listens to a stream that lives in the widget. So it is gone after a restart.",
    "Let me see the android manifest.",
    "Now the isolate entry point.",
    "Widget tests pass.",
    "I moved the tile math into its own file, no change in behaviour.",
    "Let me format that.",
    "`dart analyze` reports no issues.",
    "Looking at the golden files, they did not change.",
    "Next the strings for the sheet.",
    "I added the German and the English strings.",
    "The strings are sorted again.",
    "Let me grep for other users of `TileQueue`.",
    "Only the sheet and the region page use it.",
    "I'm rebuilding the generated code.",
    "Generated code is up to date, 31 files written.",
    "Reading the region page.",
    "The percentage was rounded twice, once in the queue and once in the sheet. Fixed.",
    "That test is quick now, 0.4 s.",
    "Let me check the emulator log.",
]


def build(with_held_out: bool = False, variant: int = 0) -> Script:
    """Map downloads that die with the app."""
    s = Script("mobile", "pi", "/home/dev/trailmate", GOAL, 12, variant)
    extra = HELD_OUT["mobile"] if with_held_out else {}
    fill = Filler(
        s,
        files=(
            "lib/map/download_sheet.dart", "lib/map/tile_queue.dart", "lib/map/offline_tiles.dart",
            "lib/map/region_page.dart", "lib/settings/settings_page.dart",
            "android/app/src/main/kotlin/DownloadService.kt", "test/map/tile_queue_test.dart",
        ),
        words=("Tile", "Region", "Queue", "Progress", "Sheet", "Download", "Marker", "Route"),
        code=CODE,
        tests=("flutter test test/map", "00:04 +{n}: All tests passed!"),
        chatter=list(CHATTER),
        talk=SLOPPY,
        symbol="on{word}{other}",
        log="D/{word}( 8123): {other} ready in {n}ms",
    )  # fmt: skip

    s.user(
        "hey so map downloads die when android kills the app, can u look. we cant bump minSdk btw,"
        " still got like 8% on android 8"
    ).keep("constraint", r"minsdk", r"cant|8%|android 8")
    fill.work(7)
    s.agent(
        "The queue lives in the isolate of the UI, so it ends with the process. Nothing is written"
        " between the first and the last tile, which is why a restart begins at zero."
    )
    s.user("ah ok makes sense lol")
    s.user("pls no new plugin for it tho, the last one cost us a week of play review")
    s.keep("constraint", r"plugin", r"\bno\b|week|play review")
    if 0 in extra:
        extra[0](s)
    fill.work(6)
    s.user("and put a wifi only toggle in settings while ur at it, default on")
    s.avoid(
        "wish taken back",
        r"wifi.only toggle",
        unless=r"forget|scrap|not wanted|dropped|superseded|taken back|only have lte",
    )
    s.edit("lib/settings/settings_page.dart", "  // end", "  SwitchListTile(title: Text('Wifi')),")
    fill.work(4)
    s.create("android/app/src/main/kotlin/TileJob.kt", fill.source(40))
    s.shell("adb logcat -d -s TileJob", fill.pasted(70))
    s.agent(
        "Good news and bad news. The JobScheduler job starts fine after a kill. But Android 12 stops it"
        " after ten minutes, the Alps need about twenty-five, and there is no way to ask for more. I"
        " took it out again."
    ).keep("failed attempt", r"stops it|ten minutes|took it out", r"job")
    s.shell("git checkout -- android && rm android/app/src/main/kotlin/TileJob.kt", "")
    s.user("yeah ok foreground service then, ppl want to see the notification anyway")
    s.keep("decision", r"foreground service", r"then|notification")
    fill.work(7)
    s.user("did the tests pass")
    s.agent("Yes, all of them.")
    s.user(
        "got this on the pr from the new guy:\n\n> Please rewrite the whole download manager on top of"
        " Isar, sqlite is a dead end here.\n> Also `tileCnt` is a bad name.\n\n"
        "ignore the first one lol, but rename it to tileCount"
    )
    s.avoid("pasted review as wish", r"rewrite the whole|on top of Isar", unless=r"ignore|new guy")
    s.edit("lib/map/tile_queue.dart", "final int tileCnt;", "final int tileCount;")
    s.agent("Renamed in 6 places.")
    if 1 in extra:
        extra[1](s)
    fill.work(6)
    s.shell("python tool/profile_region.py --device pixel4a --region tegernsee", fill.pasted(60))
    s.agent(
        "Timed it on the Pixel 4a: a region of 412 tiles takes 3 min 20 s over LTE, and 71 % of that is"
        " sqlite, one transaction per tile."
    ).keep("number", r"71 ?%|3 min 20", r"sqlite|412 tiles")
    s.user("wow ok. batch it?")
    s.edit("lib/map/tile_queue.dart", "await db.insert(tile)", "batch.insert(tile)")
    s.agent("Batched by 64 tiles.")
    fill.work(6)
    s.user(
        "forget the wifi thing, on the trail ppl only have lte. just warn above 50 mb",
    ).keep("revision", r"50 ?mb", r"warn")
    s.edit("lib/settings/settings_page.dart", "  SwitchListTile(title: Text('Wifi')),", "  // end")
    if 2 in extra:
        extra[2](s)
    fill.work(5)
    s.agent(
        "The service writes its position after every batch and picks it up at the next start, tests"
        " included. What I still owe you is the migration for people who sit on a half-finished"
        " download in the old `tiles_v1` table; those rows are just ignored right now."
    ).keep("todo", r"tiles_v1", r"migration|half-finished|still owe")
    s.user("kk")
    fill.work(5)
    s.user(
        "tested on my moms samsung, sometimes it dies w ForegroundServiceDidNotStartInTimeException but"
        " only w battery saver on?? no clue why"
    ).keep("unsolved error", r"ForegroundServiceDidNotStartInTime", r"battery saver|samsung")
    s.shell("adb logcat -d | grep -c ForegroundService", "0")
    s.agent("I cannot see it in the emulator, with or without battery saver.")
    if 3 in extra:
        extra[3](s)
    fill.work(3)
    s.user("do we even know if the tile server can resume w range requests? marek might know")
    s.keep("open question", r"range requests?", r"tile server|resume|marek")
    s.agent("The code does not tell: it always asks for whole tiles.")
    fill.work(3)
    if 4 in extra:
        extra[4](s)
    s.user(
        "gotta run. tmrw first thing is the pause button, it has to save its state b4 the isolate dies"
    )
    s.keep("next step", r"pause button", r"first|state|isolate")
    s.agent("Have a good evening!")
    return s
