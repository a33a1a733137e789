"""What a program that XLA compiled for a GPU costs, from its text: kernels, bytes, and waits of the host.

fusion: a kernel; reads what it needs of its operands, once, and writes its results, in place only what is new
while: its body so many times; of unknown length: once, and the host waits (XLA copies the condition to it)
conditional: the dearest branch, and the host waits
"""

import math
import re
from typing import NamedTuple


class Cost(NamedTuple):
    kernels: float = 0
    bytes: float = 0  # read and written
    syncs: float = 0  # how often the host waits

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*map(sum, zip(self, other, strict=True)))

    def __mul__(self, times: float) -> "Cost":
        return Cost(*(times * x for x in self))


class Instruction(NamedTuple):
    """One line of a program."""

    name: str
    arrays: list[tuple[int, int]]  # elements, and bytes of each, of every array it makes
    kind: str
    operands: list[str]
    attributes: str
    is_root: bool

    @property
    def elements(self) -> int:
        return self.arrays[0][0] if self.arrays else 0

    @property
    def bytes(self) -> int:
        return sum(elements * width for elements, width in self.arrays)

    @property
    def trip_count(self) -> int | None:
        known = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', self.attributes)
        return int(known[1]) if self.kind == "while" and known else None

    def called(self, role: str) -> str:
        return re.search(rf"\b{role}=%([\w.\-]+)", self.attributes)[1]

    def branches(self) -> list[str]:
        listed = re.search(r"branch_computations=\{(.*?)\}", self.attributes)
        if listed:
            return re.findall(r"%([\w.\-]+)", listed[1])
        return [self.called("true_computation"), self.called("false_computation")]


Program = dict[str, list[Instruction]]  # by name of a computation: its instructions, operands before what uses them

ARRAY = re.compile(r"\b(pred|bf16|[sufc]\d+)\[([\d,]*)\]")
COMPUTATION = re.compile(r"^(?:ENTRY )?%([\w.\-]+) \(.*\{$")
INSTRUCTION = re.compile(r"^  (ROOT )?%([\w.\-]+) = (\((?:[^()]|\([^()]*\))*\)|\S+) ([a-z][a-z0-9\-]*)\((.*?)\)(.*)$")


def parse(text: str) -> Program:
    """The computations of a program that XLA printed."""
    program, current = {}, None
    for line in text.splitlines():
        if begins := COMPUTATION.match(line):
            current = program.setdefault(begins[1], [])
        elif (found := INSTRUCTION.match(line)) and current is not None:
            root, name, made, kind, operands, attributes = found.groups()
            arrays = [(math.prod(map(int, filter(None, n.split(",")))), _width(t)) for t, n in ARRAY.findall(made)]
            current.append(
                Instruction(name, arrays, kind, re.findall(r"%([\w.\-]+)", operands), attributes, bool(root))
            )
    return program


def _width(dtype: str) -> int:
    """Bytes of a number."""
    return 1 if dtype == "pred" else max(1, int(re.search(r"\d+", dtype)[0]) // 8)


NO_KERNEL = {"parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "partition-id"}


def cost_of(program: Program, body: list[Instruction]) -> Cost:
    """Of all the instructions of a computation."""
    by_name = {i.name: i for i in body}
    total = Cost()
    for i in body:
        if i.kind in NO_KERNEL or i.kind.endswith(("-done", "-barrier")):
            continue
        if i.kind == "while":
            step = cost_of(program, program[i.called("body")])
            if i.trip_count is None:
                step += cost_of(program, program[i.called("condition")]) + Cost(syncs=1)
            total += step * (1 if i.trip_count is None else i.trip_count)
        elif i.kind == "conditional":
            total += max(cost_of(program, program[branch]) for branch in i.branches()) + Cost(syncs=1)
        elif i.kind in ("call", "async-start"):
            total += cost_of(program, program[i.called("to_apply" if i.kind == "call" else "calls")])
        elif i.kind == "fusion":
            total += Cost(1, bytes_of_fusion(program, program[i.called("calls")]))
        else:
            total += Cost(1, i.bytes + sum(by_name[name].bytes for name in i.operands))
    return total


def bytes_of_fusion(program: Program, body: list[Instruction]) -> float:
    """What a kernel reads of its parameters and writes of its results.

    From the results backwards, how many elements of every instruction are needed: of the table of a gather as many as
    it makes, of what is reduced all, of what is used element by element as many as are used. What several gathers
    need adds up.
    """
    by_name = {i.name: i for i in body}
    needed, written = dict.fromkeys(by_name, 0.0), 0

    def need(name: str, elements: float, others: float = 0.0) -> None:
        needed[name] = min(by_name[name].elements, max(needed[name], elements + others))

    results = _results(by_name, next(i for i in body if i.is_root))
    in_place = [i for i in results if i.kind in ("scatter", "dynamic-update-slice")]
    for i in results:
        if i in in_place:
            table, *_, updates = i.operands if i.kind == "scatter" else i.operands[:2]
            written += by_name[updates].bytes
            for name in i.operands[1:]:
                need(name, by_name[name].elements)
            if _adds(program, i):
                need(table, by_name[updates].elements)
        else:
            written += i.bytes
            need(i.name, i.elements)
    for i in reversed(body):
        if i in in_place or i.kind == "tuple":
            continue
        for place, name in enumerate(i.operands):
            if i.kind in ("gather", "dynamic-slice") and place == 0:
                need(name, needed[i.name], others=needed[name])
            elif i.kind == "reduce":
                need(name, needed[i.name] * max(1.0, by_name[name].elements / max(1, i.elements)))
            elif i.kind in ("dot", "convolution", "sort", "reduce-window"):
                need(name, by_name[name].elements)
            else:
                need(name, needed[i.name])
    return written + sum(needed[i.name] * i.arrays[0][1] for i in body if i.kind == "parameter")


def _results(by_name: dict[str, Instruction], root: Instruction) -> list[Instruction]:
    """What makes the numbers that a kernel writes."""
    if root.kind == "tuple":
        return [one for name in root.operands for one in _results(by_name, by_name[name])]
    return _results(by_name, by_name[root.operands[0]]) if root.kind == "bitcast" else [root]


def _adds(program: Program, i: Instruction) -> bool:
    """Does it need what was there before?"""
    if i.kind != "scatter":
        return False
    return next(j for j in program[i.called("to_apply")] if j.is_root).kind != "parameter"
