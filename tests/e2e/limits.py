"""Usage limits as providers answer them, and an account of a plan that can meet one."""

import json
import time
from typing import TYPE_CHECKING

from fakes.model_server import ModelStep

if TYPE_CHECKING:
    from conftest import World

RESET = 7200


def claude_limit(claim: str = "five_hour", seconds: int = RESET) -> ModelStep:
    """What Anthropic answers at a limit: that of five hours, or another one, which resets then."""
    error = {
        "type": "rate_limit_error",
        "message": "This request would exceed your account's rate limit.",
    }
    headers = {
        "x-should-retry": "false", "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-representative-claim": claim,
        "anthropic-ratelimit-unified-reset": str(int(time.time()) + seconds),
    }  # fmt: skip
    body = json.dumps({"type": "error", "error": error}).encode()
    return ModelStep(status=429, raw=body, headers=headers)


def codex_limit() -> ModelStep:
    """What OpenAI answers at the limit of a plan."""
    then = int(time.time()) + RESET
    error = {"type": "usage_limit_reached", "message": "The usage limit has been reached",
             "plan_type": "plus", "resets_at": then}  # fmt: skip
    headers = {"x-codex-primary-used-percent": "100.0", "x-codex-primary-window-minutes": "300",
               "x-codex-primary-reset-at": str(then)}  # fmt: skip
    return ModelStep(status=429, raw=json.dumps({"error": error}).encode(), headers=headers)


def sign_in(world: "World") -> None:
    """Sign Claude Code in to a plan, with dummies."""
    soon = int((time.time() + 864000) * 1000)
    account = {"accessToken": "sk-ant-oat01-dummy", "refreshToken": "sk-ant-ort01-dummy", "expiresAt": soon,
               "scopes": ["user:inference", "user:profile"], "subscriptionType": "max"}  # fmt: skip
    world.write(".claude/.credentials.json", {"claudeAiOauth": account})
    (world.home / ".claude" / ".credentials.json").chmod(0o600)
