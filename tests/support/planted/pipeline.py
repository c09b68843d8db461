"""A data pipeline, in Codex, that ends in an interrupted turn."""

from planted.filler import Filler
from planted.heldout import HELD_OUT
from planted.script import Script

GOAL = (
    "Bring the nightly run of jobs/aggregate_daily.py safely inside the maintenance window and finish"
    " the partitioned writes in sinks/parquet.py"
)

CODE = (
    "    {word} = con.sql('select {other}_id, sum(kwh) from {word} group by 1')",
    "def {word}_{other}(con: DuckDBPyConnection, day: date) -> Relation:",
    '    """One row per {word} and {other}."""',
    "    path = root / '{word}' / f'{{day:%Y%m%d}}.parquet'",
    "    assert {word}.columns == {other}.columns",
    "",
    "    for {word} in sorted({other}):",
    "        log.info('{word} %s', {other})",
    "    return {word}.filter('{other} is not null')",
)

CHATTER = [
    "I'm checking how the nightly job is put together, then I'll profile the slow part.",
    "I found the entry point; it builds one relation per source and joins them at the end. I'm reading the sinks next.",
    "The sink writes one file per run. I'm validating who reads those files before I change the layout.",
    "Only the export step and two notebooks read the files. I'm looking at the export now.",
    "I'm adding a small timer around each stage so that the numbers are comparable.",
    "The timers are in. I'm running the sample of one district.",
    "The sample run takes 74 seconds end to end, so I can iterate quickly.",
    "I have the shape of the change. I'm editing the sink and its test.",
    "The sink tests are green, 22 of them.",
    "I'm doing a quick pass over the type annotations in `sinks/`.",
    "Type check is clean.",
    "I'm tightening the SQL of the tariff lookup, it was evaluated per row.",
    "The lookup is a join now and the result is the same on the sample.",
    "I'm in verification now.",
    "I'm updating the fixtures for the new folder layout.",
    "The fixtures are regenerated; 9 files changed, contents equal.",
    "I'm checking the notebook paths.",
    "Both notebooks open the new folders without changes.",
    "I'm reading the retry helper, since the job runs under it.",
]


def build(with_held_out: bool = False, variant: int = 0) -> Script:
    """A nightly job that takes too long."""
    s = Script("pipeline", "codex", "/home/dev/meterflow", GOAL, 13, variant)
    extra = HELD_OUT["pipeline"] if with_held_out else {}
    fill = Filler(
        s,
        files=(
            "jobs/aggregate_daily.py", "sinks/parquet.py", "sources/readings.py", "sql/dedup.sql",
            "export/grid_operator.py", "tests/test_aggregate.py", "tests/test_parquet.py",
        ),
        words=("meter", "reading", "tariff", "district", "group", "slot", "export", "quality"),
        code=CODE,
        tests=("python -m pytest tests -q -k parquet", "......................\n{n} passed in 4.10s"),
        chatter=list(CHATTER),
        log="[INFO] stage={word} rows={n}000 next={other}",
    )  # fmt: skip

    s.user(
        "Please look at jobs/aggregate_daily.py. It takes nearly three hours a night and nobody knows"
        " why. One thing to know up front: the grid operator's importer reads our export by position,"
        " so the order of the columns is effectively part of a contract."
    ).keep("constraint", r"by position|order of the columns", r"importer|contract|export")
    s.user("The window is from 01:00 to 05:15, after that the backup takes all the I/O.")
    s.avoid("superseded number", r"0?5:15", unless=r"0?4:30")
    fill.work(8)
    s.shell("python -m meterflow.profile --night 14", fill.pasted(120))
    s.agent(
        "The profile of the night of the 14th is in: 2 h 51 min in total, and 1 h 58 min of that is the"
        " dedup join alone. Reading, tariffs and writing share the rest about evenly."
    ).keep("number", r"1 h 58", r"dedup")
    s.user("Interesting. Would Spark help?")
    s.agent(
        "It would spread the join, yes. On the other hand the data is about 60 GB a night, which one"
        " machine can handle if the join is done in parts."
    )
    s.user(
        "Then we stay with DuckDB. I can't explain a cluster for 60 GB to finance, and nobody here"
        " wants to run one."
    ).keep("decision", r"DuckDB", r"cluster|finance|stay")
    if 0 in extra:
        extra[0](s)
    fill.work(6)
    s.todos(
        ("Profile one night", "completed"),
        ("Vectorise the tariff lookup", "in_progress"),
        ("Partitioned writes in sinks/parquet.py", "pending"),
        ("Compare checksums of old and new export for all of October", "pending"),
    )
    fill.work(6)
    s.shell(
        "python -m pytest tests/test_aggregate.py -q",
        "E   KeyError: 'tariff_zone'\nFAILED tests/test_aggregate.py::test_zones - KeyError:"
        " 'tariff_zone'\n1 failed, 17 passed in 6.03s",
        1,
    )
    s.agent(
        "The zones test fails with `KeyError: 'tariff_zone'`; the column is renamed by the join."
    )
    s.avoid("fixed error", r"KeyError: 'tariff_zone'", unless=r"passed|fixed|done|later|resolved")
    s.edit("jobs/aggregate_daily.py", "rel.tariff_zone", "rel.zone")
    s.shell("python -m pytest tests/test_aggregate.py -q", "..................\n18 passed in 5.71s")
    s.agent("All 18 pass now.")
    fill.work(5)
    s.agent(
        "I partition by `meter_group` instead of by day. A late reading can reach back 40 days, and with"
        " daily partitions every one of those would have to be rewritten."
    ).keep("decision", r"meter_group", r"by day|late reading|daily|partition")
    s.edit("sinks/parquet.py", "partition_by=None", "partition_by=['meter_group']")
    if 1 in extra:
        extra[1](s)
    fill.work(6)
    s.user(
        "Looks good so far. Mind the memory: the machine has 32 gigs, but Postgres takes 20 of them, so"
        " there's about 11 left for this job."
    ).keep("number", r"\b11\b", r"32 gigs|Postgres|left|memory")
    fill.work(5)
    s.shell(
        "python -m meterflow.profile --night 14 --set preserve_insertion_order=false", "170.4 min"
    )
    s.agent(
        "I hoped `preserve_insertion_order=false` would relieve the join, but 170.4 minutes against"
        " 171.0 is noise. It's back at its default."
    ).keep("failed attempt", r"preserve_insertion_order", r"noise|170|back at|default")
    fill.work(5)
    s.user("Hello? Still there?")
    s.agent("Yes. I was waiting for the profile, it runs for a while.")
    s.user(
        "Sorry, I mixed something up above. They moved the backup, so the window already closes at"
        " 04:30."
    ).keep("revision", r"0?4:30", r"window|closes|backup")
    if 2 in extra:
        extra[2](s)
    fill.work(6)
    s.todos(
        ("Profile one night", "completed"),
        ("Vectorise the tariff lookup", "completed"),
        ("Partitioned writes in sinks/parquet.py", "in_progress"),
        ("Compare checksums of old and new export for all of October", "pending"),
    ).keep("todo", r"checksums", r"October", unless=r"^- Done")
    s.agent(
        "The tariff lookup is done, 9 minutes saved. I'm going through the groups one by one now."
    )
    s.shell("python jobs/aggregate_daily.py --night 14 --group 3", fill.pasted(40) + "\ngroup 3 ok")
    for minutes in (9, 8):
        s.shell(
            "python jobs/aggregate_daily.py --night 14 --group 7",
            fill.pasted(50) + "\nTraceback (most recent call last):\n"
            "duckdb.duckdb.OutOfMemoryException: Out of Memory Error: failed to pin block of size"
            f" 256.0 KiB (10.9 GiB/11.0 GiB used) after {minutes} min",
            1,
        )
    s.agent(
        "Twelve of the thirteen groups run through. Group 7, the one with the industrial meters, falls"
        " over with `OutOfMemoryException: failed to pin block of size 256.0 KiB` after eight or nine"
        " minutes."
    ).keep("unsolved error", r"OutOfMemory|pin block", r"group 7")
    if 3 in extra:
        extra[3](s)
    s.user("Any idea?")
    fill.work(4)
    s.agent(
        "The hash table of the join holds all meters of the group at once. I'd feed it in slices of 500"
        " meters; then it should stay well below the limit, at the price of reading the index twice."
    ).keep("next step", r"500 meters", r"slices|feed")
    s.user("Yes, try that.")
    s.agent("I'm reading `sql/dedup.sql` once more to see where the slice has to go in.")
    s.read("sql/dedup.sql", fill.source(60))
    if 4 in extra:
        extra[4](s)
    s.interrupted()
    return s
