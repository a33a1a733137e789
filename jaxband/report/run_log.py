"""What a sweep's log tells: when it was started and resumed, on what, how much was done, and how it ended."""

import dataclasses
import json
from pathlib import Path

VERSIONS = ("jaxband", "jax", "jaxlib", "python")


@dataclasses.dataclass
class Session:
    """From one start of `jaxband sweep` to its end."""

    started: float  # seconds since 1970
    wanted: int  # units that were missing
    versions: dict[str, str]
    devices: list[str] = dataclasses.field(default_factory=list)
    done: int = 0
    last: float = 0.0  # when it was last heard of
    end: str = "killed or running"
    rejected: int = 0  # files set aside

    @property
    def seconds(self) -> float:
        return self.last - self.started


def read(directory: Path) -> list[Session]:
    """The sessions in a directory's log, in order; lines that a crash cut short are passed over."""
    try:
        lines = (Path(directory) / "log.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    sessions, rejected = [], 0
    for event in filter(None, map(_parsed, lines)):
        if event["event"] == "start":
            versions = {name: str(event[name]) for name in VERSIONS if name in event}
            sessions.append(Session(event["time"], int(event.get("units", 0)), versions, rejected=rejected))
            rejected = 0
        elif event["event"] == "rejected":  # files are set aside before a session starts
            rejected += 1
        if sessions:
            _take_in(sessions[-1], event)
    return sessions


def _take_in(session: Session, event: dict) -> None:
    if event["event"] == "rejected":
        return
    session.last = max(session.last, event["time"])
    match event["event"]:
        case "devices":
            session.devices = [str(device) for device in event.get("devices", ())]
        case "unit":
            session.done += 1
        case "done" | "incomplete":
            session.end = event["event"]
        case "stopped":
            session.end = f"stopped: {event.get('reason', '')}"


def _parsed(line: str) -> dict | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    good = (
        isinstance(event, dict) and isinstance(event.get("time"), int | float) and isinstance(event.get("event"), str)
    )
    return event if good else None
