"""Random transformations of a kernel, drawn from what the kernel has."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st

import loopkit as lk
from loopkit.expr.mappers import called, update_of, variables
from loopkit.kernel.tree import Leaf, Loop, Seq, Tree
from tests.property.kernels import Draw

TAGS = ("l.0", "g.0", "l.0", "l.1", "unr", "g.1", "ilp", "ilp.seq", "for", "l.auto", "vec")


#: Steps that copy data, and the arguments that allow what they do not do by default.
STAGING = ("add_prefetch", "precompute", "buffer_array")
ALLOWANCES = ("allow_reordering", "allow_global_storage", "allow_launches")


@dataclass(frozen=True)
class Step:
    """One call of a transformation."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def apply(self, knl: lk.LoopKernel) -> lk.LoopKernel:
        result = getattr(lk, self.name)(knl, *self.args, **dict(self.kwargs))
        assert isinstance(result, lk.LoopKernel)
        return result

    def __str__(self) -> str:
        shown = ["knl", *map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs)]
        return f"knl = lk.{self.name}({', '.join(shown)})"


class NothingToDoError(Exception):
    """The kernel has nothing that the drawn transformation is for."""


@dataclass
class Drawer:
    """Draws steps for *knl*, a kernel that is called with *sizes*."""

    draw: Draw
    knl: lk.LoopKernel
    sizes: Mapping[str, int]

    def step(self) -> Step:
        return STEPS[self.one(list(STEPS))](self)

    def mapping(self) -> Step:
        """A loop onto the threads of a block, or the blocks and threads of a grid; at times all at once."""
        iname, axis = self.one(self.untagged), self.one("001")
        if self.chance(15):
            tags = {x: self.one(("l.0", "l.auto", "l.0", "l.1", "g.0")) for x in self.some(self.untagged, 3)}
            return Step("tag_inames", (tags,))
        if any(None in s.domain.constant_range(iname) for s in self.knl.statements if iname in s.inames):
            outer = (("outer_tag", f"g.{axis}"),) if self.chance(60) else ()
            return Step("split_iname", (iname, self.one((2, 3, 4))), (*outer, ("inner_tag", f"l.{axis}")))
        return Step("tag_inames", ({iname: self.one((f"l.{axis}", f"l.{axis}", f"g.{axis}"))},))

    def one(self, choices: Any) -> Any:
        choices = list(choices)
        if not choices:
            raise NothingToDoError
        return self.draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return bool(self.draw(st.integers(0, 99)) >= 100 - percent)

    def some(self, choices: Any, most: int) -> list[Any]:
        choices = list(choices)
        if not choices:
            raise NothingToDoError
        return list(self.draw(st.lists(st.sampled_from(choices), min_size=1, max_size=most, unique=True)))

    @property
    def inames(self) -> tuple[str, ...]:
        return self.knl.inames

    @property
    def untagged(self) -> list[str]:
        return [x for x in self.inames if x not in self.knl.tags]

    def within(self) -> tuple[tuple[str, Any], ...]:
        return (("within", self.one(self.knl.statement_by_id)),) if self.chance(6) else ()

    # Inames and order

    def split(self) -> Step:
        kwargs: list[tuple[str, Any]] = list(self.within())
        if self.chance(45):
            kwargs.append(("inner_tag", self.one(("l.0", "l.1", "unr", "ilp", "l.0", "vec"))))
        if self.chance(35):
            kwargs.append(("outer_tag", self.one(("g.0", "g.1", "l.1"))))
        return Step("split_iname", (self.one(self.untagged), self.one((2, 3, 4, 8))), tuple(kwargs))

    def levels(self) -> Step:
        x = self.one(self.untagged)
        names = [self.knl.fresh_name(f"{x}_{part}") for part in ("a", "b", "c")[:self.one((2, 3))]]
        tags = {y: self.one(("l.0", "l.0", "g.0", "unr", "l.1", "vec")) for y in names if self.chance(60)}
        lengths = {names[0]: None, **{y: self.one((1, 2, 3, 4)) for y in names[1:]}}
        return Step("split_levels", (x, lengths), (("tags", tags), *self.within()))

    def pack(self) -> Step:
        """Several inames on one axis."""
        return Step("tag_inames", ({x: self.one(("l.0", "l.0", "g.0")) for x in self.some(self.untagged, 3)},))

    def join(self) -> Step:
        pairs = {(outer.iname, outer.body.iname) for outer in _loops(self.knl.tree) if isinstance(outer.body, Loop)}
        return Step("join_inames", (list(self.one(sorted(pairs))),))

    def rename(self) -> Step:
        return Step("rename_iname", (self.one(self.inames), self.knl.fresh_name("q")), self.within())

    def prioritize(self) -> Step:
        return Step("prioritize_loops", (self.some(self.inames, 3),))

    def interchange(self) -> Step:
        nests = {(x, y) for way in self.knl.paths.values() for a, x in enumerate(_inames(way))
                 for y in _inames(way)[a + 1:]}
        return Step("interchange", self.one(sorted(nests)))

    def tile(self) -> Step:
        return Step("tile", ({x: self.one((2, 3, 4)) for x in self.some(self.untagged, 2)},))

    def tag(self) -> Step:
        return Step("tag_inames", ({self.one(self.inames): self.one(TAGS)},))

    def untag(self) -> Step:
        return Step("untag_inames", (self.one(self.knl.tags),))

    def unroll(self) -> Step:
        return Step("unroll", (self.one(self.inames),))

    # Affine maps and parts of loops

    def skew(self) -> Step:
        nests = {(x, y) for way in self.knl.paths.values() for a, x in enumerate(_inames(way))
                 for y in _inames(way)[a + 1:]}
        outer, inner = self.one(sorted(nests))
        by = self.one(({outer: 1}, {outer: -1}, {outer: 2}, f"3*{outer} % 4", f"{outer} // 2"))
        return Step("skew", (inner, by), self.within())

    def shift(self) -> Step:
        iname = self.one(self.untagged)
        by = self.one((1, -1, 2, *(q for q in self.sizes if q in self.knl.argument_by_name)))
        owners = [s.id for s in self.knl.statements if iname in s.inames]
        return Step("shift", (iname, by), (("within", self.one(owners)),) if self.chance(60) else ())

    def reverse(self) -> Step:
        return Step("reverse", (self.one(self.untagged),), self.within())

    def affine_map(self) -> Step:
        pairs = {(outer.iname, outer.body.iname) for outer in _loops(self.knl.tree) if isinstance(outer.body, Loop)}
        i, j = self.one(sorted(pairs))
        u, v = self.knl.fresh_name("u"), self.knl.fresh_name("v")
        equations = self.one(([f"{u} = {i} + {j}", f"{v} = {j}"], [f"{i} = {v} - {u}", f"{j} = {u}"],
                              [f"{u} = 2*{i} + 1", f"{v} = {i} - {j}"], [f"{u} = {i} + {j}", f"{v} = {i} - {j}"]))
        return Step("affine_map_inames", ([i, j], [u, v], equations), self.within())

    def duplicate(self) -> Step:
        statement = self.one([s for s in self.knl.statements if s.inames])
        return Step("duplicate_inames", (self.some(statement.inames, 2), statement.id))

    def chunk(self) -> Step:
        tag = (("outer_tag", "g.0"),) if self.chance(30) else ()
        return Step("chunk_iname", (self.one(self.untagged), self.one((2, 3))), (*self.within(), *tag))

    def peel(self) -> Step:
        return Step("peel", (self.one(self.untagged), self.one((1, 0, 2)), self.one((0, 1, 2))), self.within())

    # The order tree

    def fuse(self) -> Step:
        runs = [loops for s in _sequences(self.knl.tree)
                if len(loops := [c.iname for c in s.children if isinstance(c, Loop)]) > 1]
        run = self.one(runs)
        names = list(dict.fromkeys(run[i] for i in self.draw(st.permutations(range(len(run))))[:self.one((2, 2, 3))]))
        new = (self.knl.fresh_name("f"),) if self.chance(20) else ()
        return Step("fuse_loops", (names, *new))

    def distribute(self) -> Step:
        statement = self.one(self.knl.statement_by_id)
        return Step("distribute_loop", (self.one(_inames(self.knl.paths[statement])), statement))

    def jam(self) -> Step:
        return Step("unroll_and_jam", (self.one(self.untagged), self.one((2, 3))), self.within())

    def apply_schedule(self) -> Step:
        """The order as it is, with one or two things changed."""
        paths = {s: p for s, p in self.knl.paths.items() if "." not in s or self.parts}
        vectors = {s: [str(x.position) if x.iname is None else x.iname for x in p] for s, p in paths.items()}
        for _ in range(self.one((1, 1, 2))):
            self._change(vectors)
        return Step("apply_schedule", ({s: f"[{', '.join(v)}]" for s, v in vectors.items()},))

    @property
    def parts(self) -> bool:
        """Must the parts of reductions be named?"""
        return any("." in s and set(_inames(self.knl.paths[s.split(".")[0]])) - set(_inames(p))
                   for s, p in self.knl.paths.items())

    def _change(self, vectors: dict[str, list[str]]) -> None:
        x = self.one(sorted({e for v in vectors.values() for e in v if e in self.knl.inames}))
        holders = [v for v in vectors.values() if x in v]
        y = self.one(sorted({e for e in holders[0] if e in self.knl.inames and e != x} or {x}))
        kind = self.one(("skew", "strip", "reverse", "swap", "swap", "places"))
        factor = self.one((1, 2, -1))
        if kind == "places":
            depth = self.one(range(max(map(len, vectors.values()))))
            numbers = self.draw(st.permutations(range(4)))
            holders = [v for v in vectors.values() if len(v) > depth and v[depth].isdigit() and int(v[depth]) < 4]
            for v in holders:
                v[depth] = str(numbers[int(v[depth])])
        for v in [] if kind == "places" else holders:
            at = v.index(x)
            if kind == "skew" and y != x and y in v:
                v[at] = f"{x} + {factor}*{y}"
            elif kind == "strip":
                v[at:at + 1] = [f"{x}//2", f"{x}%2"]
            elif kind == "reverse":
                v[at] = f"-{x}"
            elif kind == "swap" and y in v:
                v[v.index(y)], v[at] = v[at], v[v.index(y)]

    # Data

    def prefetch(self) -> Step:
        readers = self._readers([*self.knl.array_args, *self.knl.temporaries])
        array = self.one(sorted(readers))
        inames = sorted({x for s in readers[array] for x in self.knl.statement_by_id[s].inames})
        kwargs: list[tuple[str, Any]] = []
        if self.chance(40):
            kwargs.append(("default_tag", self.one((None, "unr", "l.0", "for"))))
        if self.chance(10):
            kwargs.append(("temporary_address_space", self.one(("private", "local", "global"))))
        if self.chance(10):
            kwargs.append(("fetch_outer_inames", self.some(inames, 2) if inames else []))
        if self.chance(25):
            kwargs.append(("within", self.one(readers[array])))
        if self.chance(20):
            kwargs += [("fetch_bounding_box", True), ("box_multiples", self.one((1, 1, 2, 3)))]
        sweep = self.some(inames, 2) if inames and self.chance(90) else []
        return Step("add_prefetch", (array, sweep), (*kwargs, *self.allowed()))

    def allowed(self) -> tuple[tuple[str, Any], ...]:
        """What a copy may change beside: most often nothing."""
        return tuple((name, True) for name in ALLOWANCES) if self.chance(35) else ()

    def pipeline(self) -> Step:
        kwargs: list[tuple[str, Any]] = []
        if self.chance(50):
            kwargs.append(("temporaries", self.some(self.knl.temporaries, 2)))
        if self.chance(40):
            kwargs.append(("registers", False))
        return Step("pipeline", (self.one(self.untagged), self.one((1, 2, 2, 3))), tuple(kwargs))

    def precompute(self) -> Step:
        rule = self.one(self.knl.substitutions)
        inames = sorted({x for s in self.knl.statements if rule in _called(s.expression) for x in s.inames})
        kwargs: tuple[tuple[str, Any], ...] = (("default_tag", self.one((None, "l.0"))),) if self.chance(40) else ()
        if self.chance(40):
            kwargs += (("fetch_bounding_box", True), ("box_multiples", self.one((1, 2))))
        return Step("precompute", (rule, self.some(inames, 2) if inames else []), (*kwargs, *self.allowed()))

    def extract(self) -> Step:
        template, names = self.one((("x[p]", ("p",)), ("z[p, q_]", ("p", "q_")), ("2*p", ("p",)), ("a[p]", ("p",)),
                                    ("x[p]*x[q_]", ("p", "q_"))))
        return Step("extract_subst", (self.knl.fresh_name("g"), template, names))

    def expand(self) -> Step:
        return Step("expand_subst", (self.one(self.knl.substitutions),))

    def privatize(self) -> Step:
        only = ([self.one(self.knl.temporaries)],) if self.chance(50) else ()
        return Step("privatize", (self.some(self.inames, 2), *only))

    def buffer(self) -> Step:
        array = self.one(sorted({s.written for s in self.knl.statements}))
        users = [s for s in self.knl.statements if s.written == array or array in variables(s.expression)]
        inames = sorted({x for s in users for x in s.inames})
        kwargs: list[tuple[str, Any]] = []
        if self.chance(60):
            kwargs.append(("default_tag", self.one((None, None, "l.0", "for"))))
        if self.chance(30):
            kwargs.append(("within", self.one([s.id for s in users])))
        if self.chance(30):
            kwargs.append(("fetch_bounding_box", True))
        return Step("buffer_array", (array, self.some(inames, 2) if inames and self.chance(85) else []),
                    (*kwargs, *self.allowed()))

    def make_atomic(self) -> Step:
        updates = [s.id for s in self.knl.statements
                   if s.id not in self.knl.reduction_of and update_of(s.assignee, s.expression)]
        return Step("make_atomic", (self.some(updates, 2),))

    def collect(self) -> Step:
        """A buffer of some atomic updates of one array by one operation."""
        one = self.one([s for s in self.knl.statements if s.commutes])
        alike = [s.id for s in self.knl.statements
                 if s.commutes and (s.written, s.combine) == (one.written, one.combine)]
        within = alike if self.chance(40) else [one.id]
        kwargs = [("within", within), ("default_tag", self.one((None, None, "l.0", "l.auto")))]
        return Step("buffer_array", (one.written, self.some(one.inames, 2) if one.inames else []), tuple(kwargs))

    def expand_storage(self) -> Step:
        return Step("expand", (self.one(self.knl.temporaries), self.some(self.inames, 2)))

    def expand_trailing(self) -> Step:
        return Step("expand", (self.one(self.knl.temporaries), self.some(self.inames, 2)), (("trailing", True),))

    def pad(self) -> Step:
        return Step("add_padding", (self.one(self.knl.temporaries), self.one((0, 1, -2))), (("by", self.one((1, 2))),))

    def layout(self) -> Step:
        """Another order of axes in memory, or columns that are mixed."""
        name = self.one(self.knl.temporaries)
        if self.chance(50):
            return Step("tag_array_axes", (name, self.one(("F", "N0,N1", "C"))))
        return Step("swizzle", (name,), (("chunk", self.one((1, 2))), ("period", self.one((1, 2, 4)))))

    def stream(self) -> Step:
        return Step("set_cache_policy", (
            self.one([a for a in self.knl.array_args if a in self.knl.written_names]), "streaming"))

    def scan(self) -> Step:
        node = self.one(list(self.knl.reductions.values()))
        if self.chance(50):
            return Step("realize_scan", (node.inames[0],))
        return Step("make_two_level_scan", (node.final, node.inames[0], self.one(self.inames), self.one((1, 2, 3))))

    def barrier(self) -> Step:
        statements = [s.id for s in self.knl.statements]
        return Step("add_barrier", (self.one(statements), self.one(statements)),
                    (("synchronization_kind", self.one(("local", "global"))),))

    def contract(self) -> Step:
        axes = {(s.written, x) for s in self.knl.statements if s.written in self.knl.temporaries
                for x in sorted(variables(s.assignee) & set(s.inames))}
        return Step("contract", self.one(sorted(axes)))

    def address_space(self) -> Step:
        return Step("set_temporary_address_space",
                    (self.one(self.knl.temporaries), self.one(("private", "local", "global"))))

    def rename_argument(self) -> Step:
        return Step("rename_argument", (self.one(self.knl.argument_by_name), self.knl.fresh_name("arg")))

    # Parameters and options

    def fix(self) -> Step:
        name = self.one([q for q in self.sizes if q in self.knl.argument_by_name])
        return Step("fix_parameters", (), ((name, self.sizes[name]),))

    def assume(self) -> Step:
        name = self.one([q for q in self.sizes if q in self.knl.argument_by_name])
        size = self.sizes[name]
        return Step("assume", (self.one((f"{name} >= {min(size, 1)}", f"{name} mod 2 = {size % 2}",
                                         f"{name} <= {size}", f"{name} >= {size}")),))

    def options(self) -> Step:
        option = self.one((("full_tiles", False), ("annotate", False), ("min_blocks", "max"), ("textual_unroll", True)))
        return Step("set_options", (), (option,))

    def _readers(self, names: Any) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for s in self.knl.statements:
            for name in names:
                if name in variables(s.expression):
                    found.setdefault(name, []).append(s.id)
        return found


STEPS: Mapping[str, Callable[[Drawer], Step]] = {
    "map": Drawer.mapping, "map again": Drawer.mapping, "map thrice": Drawer.mapping, "tag": Drawer.tag,
    "split": Drawer.split, "prefetch": Drawer.prefetch, "tag again": Drawer.tag,
    "split again": Drawer.split, "prefetch again": Drawer.prefetch, "interchange": Drawer.interchange,
    "prioritize": Drawer.prioritize, "tile": Drawer.tile, "join": Drawer.join, "rename": Drawer.rename,
    "skew": Drawer.skew, "shift": Drawer.shift, "reverse": Drawer.reverse, "affine map": Drawer.affine_map,
    "duplicate": Drawer.duplicate, "chunk": Drawer.chunk, "peel": Drawer.peel,
    "fuse": Drawer.fuse, "distribute": Drawer.distribute, "jam": Drawer.jam, "apply_schedule": Drawer.apply_schedule,
    "untag": Drawer.untag, "unroll": Drawer.unroll, "precompute": Drawer.precompute, "extract": Drawer.extract,
    "expand": Drawer.expand, "privatize": Drawer.privatize,
    "buffer": Drawer.buffer, "pipeline": Drawer.pipeline, "expand storage": Drawer.expand_storage,
    "contract": Drawer.contract, "address space": Drawer.address_space,
    "levels": Drawer.levels, "pack": Drawer.pack, "expand trailing": Drawer.expand_trailing, "pad": Drawer.pad,
    "layout": Drawer.layout,
    "stream": Drawer.stream, "scan": Drawer.scan, "barrier": Drawer.barrier,
    "rename argument": Drawer.rename_argument, "fix": Drawer.fix, "assume": Drawer.assume, "options": Drawer.options}


def _loops(tree: Tree) -> list[Loop]:
    match tree:
        case Loop():
            return [tree, *_loops(tree.body)]
        case Seq(children):
            return [x for c in children for x in _loops(c)]
        case Leaf() | _:
            return []


def _sequences(tree: Tree) -> list[Seq]:
    match tree:
        case Loop(_, body):
            return _sequences(body)
        case Seq(children):
            return [tree, *(x for c in children for x in _sequences(c))]
        case Leaf() | _:
            return []


def _inames(way: Any) -> list[str]:
    return [step.iname for step in way if step.iname is not None]


def _called(expression: Any) -> frozenset[str]:
    return called(expression) | variables(expression)
