"""The handoff of an agent up to its document, by its requirements (FR and NFR of the specification), with real panes."""

import re
from pathlib import Path
from typing import Any

import pytest
from fleets import World, document_rule, once, refusal
from selection import by_default
from waiting import retry_until

# -- FR1, FR2: the trigger -------------------------------------------------------------


@pytest.mark.both_databases
def test_fr1_the_whole_cycle(world: World) -> None:
    """FR1–FR19: one call, and the successor works on where its predecessor stopped."""
    agent = world.worked(world.started())
    answer = world.api("POST", f"/api/agents/{agent}/handoff", {"reason": "context_limit"})
    of = world.ends(answer["id"])
    old, new = world.agent(agent), world.agent(of["successor_id"])

    once(world, of)
    assert answer["status"] == "initiated"
    assert (of["reason"], of["agent_id"], of["author"]) == ("context_limit", agent, "agent")
    assert old["ended_at"] <= new["started_at"]
    assert (new["persona"], new["previous_agent_id"]) == (old["persona"], agent)
    assert of["acknowledged_at"]


@pytest.mark.long
def test_nfr2_the_answer_does_not_wait_for_the_handoff(world: World) -> None:
    """NFR2: the API answers while the agent still works on its document."""
    hold = world.folder / "go"
    world.script(document=[["wait_for", str(hold)], ["document", "{path}"]])
    id = world.hand_off(world.worked(world.started()))
    state = world.handoff(id)["state"]
    hold.touch()

    assert (state, world.ends(id)["state"]) == ("running", "done")


def test_fr2_an_agent_that_does_not_exist(world: World) -> None:
    """FR2: 404 for an agent that nobody knows."""
    assert refusal(world, "/api/agents/99/handoff")[0] == 404


def test_fr2_an_agent_that_ended(world: World) -> None:
    """FR2, scenario `Agent already ended`: 400 `Agent is not active`."""
    agent = world.started()
    world.api("POST", f"/api/agents/{agent}/stop")

    assert refusal(world, f"/api/agents/{agent}/handoff") == (400, "Agent is not active")


def test_fr2_an_agent_without_persona(world: World) -> None:
    """FR2, NFR4, scenario `Agent without persona`: 400 `Agent has no persona`."""
    agent = world.started(persona="")

    assert refusal(world, f"/api/agents/{agent}/handoff") == (400, "Agent has no persona")


def test_fr2_an_agent_without_pane(world: World) -> None:
    """FR2, scenario `Agent without tmux pane`: 400 with an error that names tmux."""
    agent = world.started()
    world.sql(f"UPDATE agents SET pane = '' WHERE id = {agent}")
    status, sentence = refusal(world, f"/api/agents/{agent}/handoff")

    assert (status, "tmux pane" in sentence) == (400, True)


def test_nfr3_a_second_handoff_is_refused_while_one_is_under_way(world: World) -> None:
    """NFR3: 409 `Handoff already in progress` while one is under way, and once it is recorded."""
    hold = world.folder / "go"
    world.script(document=[["wait_for", str(hold)], ["document", "{path}"]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    under_way = refusal(world, f"/api/agents/{agent}/handoff")
    hold.touch()
    world.ends(id)
    recorded = refusal(world, f"/api/agents/{agent}/handoff")

    assert under_way == recorded == (409, "Handoff already in progress")
    assert len(world.prompts("Write a handoff document")) == 1


@pytest.mark.parametrize(
    "body",
    [{}, {"reason": ""}, {"reason": 1}, {"reason": "x" * 5000}, {"reason": "r", "from": "nowhere"},
     {"reason": "r", "unknown": 1}, []],
)  # fmt: skip
def test_fr1_a_body_that_makes_no_sense_is_refused(world: World, body: Any) -> None:
    """A malformed body gets a 400 with a sentence, and nothing begins."""
    agent = world.started()

    assert refusal(world, f"/api/agents/{agent}/handoff", body)[0] == 400
    assert world.api("GET", "/api/handoffs")["handoffs"] == []


# -- FR3 to FR6: the instruction -------------------------------------------------------


@pytest.mark.long
def test_fr6_the_instruction_reaches_the_agent(world: World) -> None:
    """FR3–FR6: path under the persona's folder, the contents that are expected, once."""
    agent = world.worked(world.started())
    of = world.ends(world.hand_off(agent, context="the 429 path first"))
    (prompt,) = world.prompts("Write a handoff document")
    session = world.agent(agent)["session"]

    assert re.fullmatch(
        rf".*/data/personas/developer-con-1/handoffs/\d{{8}}T\d{{6}}-{session[:8]}\.md",
        of["file_path"],
    )
    for words in (of["file_path"], "decisions", "Blockers", "Files modified", "Next steps"):
        assert words in prompt["text"]


def test_d15_it_waits_until_the_turn_has_ended(world: World) -> None:
    """D15: an agent at work is not interrupted: the instruction follows its turn."""
    hold = world.folder / "go"
    world.script(slow=[["wait_for", str(hold)], ["say", "ok"]])
    agent = world.worked(world.started())
    world.api("POST", f"/api/agents/{agent}/send", {"text": "something slow"})
    id = world.hand_off(agent)
    waits = retry_until(lambda: [s["note"] for s in world.handoff(id)["steps"] if s["note"]])
    told = world.prompts("Write a handoff document")
    hold.touch()
    world.ends(id)

    assert (waits, told) == (["its turn has not ended"], [])


def test_d15_it_waits_for_what_runs_in_the_background(world: World) -> None:
    """D15: while a background command runs the API waits, says for what, and then fails by name."""
    world.script(background=[["background", "npm test --watch"], ["say", "started"]])
    agent = world.worked(world.started(), "start the tests in the background")
    id = world.hand_off(agent)
    failure = world.ends(id, "failed")["failure"]

    assert (failure["code"], "npm test" in failure["sentence"]) == ("children_running", True)
    assert world.prompts("Write a handoff document") == []


@pytest.mark.long
def test_d15_force_does_not_wait(world: World) -> None:
    """D15: `force` hands off although something runs in the background."""
    world.script(background=[["background", "npm test --watch"], ["say", "started"]])
    agent = world.worked(world.started(), "start the tests in the background")

    assert world.ends(world.hand_off(agent, force=True))["state"] == "done"


def test_leftover_input_is_taken_away_and_told(world: World) -> None:
    """What the operator had typed and not sent does not get into the instruction, and is not lost."""
    agent = world.worked(world.started())
    world.tmux("send-keys", "-t", world.agent(agent)["pane"], "-l", "half a thought")
    of = world.ends(world.hand_off(agent))
    (prompt,) = world.prompts("Write a handoff document")

    assert "half a thought" not in prompt["text"]
    assert any("half a thought" in note for note in of["notes"])


def test_an_enter_that_is_lost_is_pressed_once_more(world: World) -> None:
    """Where the text still stands in the input, Enter is pressed once more; the text is not pasted again."""
    world.rules({"match": "Write a handoff document", "ignore_enter": 1,
                 "do": [["document", "{path}"]]} | document_rule())  # fmt: skip
    of = world.ends(world.hand_off(world.worked(world.started())))

    once(world, of)
    assert len(world.seen("enter_ignored")) == 1


def test_what_its_program_does_not_take_is_taken_back(world: World) -> None:
    """A text that two Enters do not send is removed from the input, and a failure; it is pasted once."""
    world.rules(document_rule(ignore_enter=9))
    agent = world.worked(world.started())
    world.tmux("send-keys", "-t", world.agent(agent)["pane"], "-l", "half a thought")
    id = world.hand_off(agent)
    of = world.ends(id, "failed")
    screen = world.screen(world.agent(agent)["pane"])

    assert of["failure"]["code"] == "instruction_refused"
    assert "did not take it" in of["failure"]["sentence"]
    assert "❯\u00a0half a thought" in screen
    assert len([x for x in world.seen("paste") if "Write a handoff document" in x["text"]]) == 1
    assert len(world.seen("enter_ignored")) == 2


# -- FR7 to FR10: the confirmation -----------------------------------------------------


def test_fr9_a_missing_document_halts_it(world: World) -> None:
    """FR8, FR9: no file behind that turn: a hard error, no record, and the agent stays alive and usable."""
    world.script(document=[["say", "I will not"]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)

    assert world.failed(id) == "document_missing"
    assert world.handoff(id)["recorded_at"] is None
    assert world.agent(agent)["ended_at"] is None
    assert (
        world.api("POST", f"/api/agents/{agent}/send", {"text": "still there?"})["state"]
        == "proven"
    )


def test_fr10_an_empty_document_halts_it(world: World) -> None:
    """FR10: an empty file is the same failure as none."""
    world.script(document=[["write", "{path}", ""], ["say", "written"]])
    id = world.hand_off(world.worked(world.started()))

    assert world.failed(id) == "document_empty"


def test_fr9_a_failed_one_may_be_retried(world: World) -> None:
    """A handoff that failed before its record is instructed anew by `retry`."""
    world.rules(document_rule(do=[["say", "not now"]], times=1, ignore_enter=0))
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    world.failed(id)
    world.api("POST", f"/api/handoffs/{id}/retry")
    of = world.ends(id)

    assert (of["attempt"], len(world.prompts("Write a handoff document"))) == (2, 2)


@pytest.mark.long
def test_fr10_behind_a_blank_document_it_is_instructed_again(world: World) -> None:
    """A document of blanks is none: the retry asks for it again, and uses what is written then."""
    blank = [["write", "{path}", "\ufeff\n##  \n"], ["say", "written"]]
    world.rules(document_rule(do=blank, times=1, ignore_enter=0))
    id = world.hand_off(world.worked(world.started()))
    code = world.failed(id)
    world.api("POST", f"/api/handoffs/{id}/retry")
    world.ends(id)

    assert (code, len(world.prompts("Write a handoff document"))) == ("document_empty", 2)


@pytest.mark.long
def test_fr9_the_button_begins_a_failed_one_anew(world: World) -> None:
    """The same call as before begins a handoff anew that failed before its record."""
    world.rules(document_rule(do=[["say", "not now"]], times=1, ignore_enter=0))
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    world.failed(id)

    assert world.hand_off(agent, reason="again") == id
    assert world.ends(id)["reason"] == "again"


@pytest.mark.long
def test_a_retry_uses_a_document_that_is_there_by_then(world: World) -> None:
    """What the operator, or the agent, wrote after the failure is used; nothing is asked again."""
    world.script(document=[["say", "not now"]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    world.failed(id)
    Path(world.handoff(id)["file_path"]).write_text("# Handoff\n\nWritten by hand.\n")
    world.api("POST", f"/api/handoffs/{id}/retry")
    of = world.ends(id)

    assert "Written by hand." in Path(of["file_path"]).read_text()
    assert len(world.prompts("Write a handoff document")) == 1


def test_fr7_escape_is_noticed_and_fails_by_name(world: World) -> None:
    """FR7: Escape, which fires no stop hook, is noticed; the agent stays usable."""
    world.script(document=[["touch", str(world.folder / "in")], ["sleep", 60]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    retry_until((world.folder / "in").exists, 20)
    world.tmux("send-keys", "-t", world.agent(agent)["pane"], "Escape")

    assert world.failed(id) == "turn_interrupted"
    assert world.agent(agent)["ended_at"] is None


@pytest.mark.parametrize("how", by_default(["stop_twice", "nested", "late_stop"], "nested"))
def test_fr7_odd_stops_do_no_harm(world: World, how: str) -> None:
    """FR7: a stop that comes twice, late, or from a session inside counts once or not at all."""
    odd = {
        "stop_twice": ["stop_twice"],
        "nested": [["nested", "hello"]],
        "late_stop": [["late_stop", 1.0]],
    }
    world.script(document=[["document", "{path}"], *odd[how], ["say", "written"]])
    of = world.ends(world.hand_off(world.worked(world.started())))

    once(world, of)


def test_fr7_a_nested_stop_before_the_document_does_not_count(world: World) -> None:
    """A session inside the turn ends before the document is written: that is not the stop."""
    world.script(
        document=[["nested", "hello"], ["sleep", 1.5], ["document", "{path}"], ["say", "ok"]]
    )
    of = world.ends(world.hand_off(world.worked(world.started())))

    once(world, of)


def test_a_document_that_still_grows_is_waited_for(world: World) -> None:
    """What is still written to behind the stop is read when it is whole."""
    grow = ["append", "{path}", "one more line\n", 8, 0.2]
    world.script(document=[["document", "{path}"], grow, ["say", "written"]])
    of = world.ends(world.hand_off(world.worked(world.started())))

    assert Path(of["file_path"]).read_text().count("one more line") == 8


def test_a_link_at_the_documents_path_is_not_followed(world: World) -> None:
    """A link where the document should be is refused; what it leads to is not read."""
    secret = world.folder / "secret"
    secret.write_text("key")
    world.script(document=[["run", f"ln -s {secret} {{path}}"], ["say", "written"]])
    id = world.hand_off(world.worked(world.started()))

    assert world.failed(id) == "document_unsafe"


def test_d8_normal_stops_are_unaffected(world: World) -> None:
    """Scenario `Normal stop hook unaffected`: a turn's end without a handoff changes nothing but the state."""
    agent = world.worked(world.started())
    world.worked(agent, "another turn")

    assert (world.agent(agent)["state"], world.api("GET", "/api/handoffs")["handoffs"]) == (
        "idle",
        [],
    )


def test_an_agent_that_crashes_while_writing(world: World) -> None:
    """An agent that dies in its turn fails by name; from its thread it can still be handed off."""
    world.script(document=[["kill"]])
    agent = world.worked(world.started())
    id = world.hand_off(agent)
    code = world.failed(id)
    world.script()
    again = world.hand_off(agent, **{"from": "thread"})
    of = world.ends(again)

    assert (code, again, of["author"]) == ("agent_gone", id, "thread (offline)")
    assert "The agent did not write this" in Path(of["file_path"]).read_text()
