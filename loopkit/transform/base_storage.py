"""Temporaries that share memory."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopkit.analysis.base_storage import in_base_storages, require_apart
from loopkit.analysis.constructors import annotated
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel
from loopkit.language.names import require_free
from loopkit.transform.step import known_list, transform


@transform
def alias_temporaries(kernel: LoopKernel, names: str | Sequence[str], base_name_prefix: str | None = None
                      ) -> LoopKernel:
    """Let temporaries share one piece of memory, their base storage.

    The memory has as many cells as the largest of them. The step proves that no value of one temporary is overwritten
    by another one before its reader. Lowering proves it again for the final order, and places the barriers between the
    readers of one temporary and the writers of the next.

    ``TemporaryVariable(name, base_storage=...)`` declares the same in *kernel_data* of :func:`loopkit.make_kernel`.

    :arg names: two or more temporaries with one dtype.
    :arg base_name_prefix: the name of the memory, with a number if the name is taken; default: ``temp_storage``.
    :raises UnknownNameError: a name is not a temporary.
    :raises NameConflictError: the memory cannot have this name.
    :raises PreconditionError: fewer than two temporaries are given, one is given twice, or one has a base
        storage.
    :raises StorageError: two of them have different dtypes or address spaces, or an extent of one is not constant; a
        statement reads two of them; one of them is the accumulator of a reduction, or an instruction accesses it.
    :raises IllegalTransformError: a value of one is overwritten by another one before its reader.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i,j<64}", [
    ...     "<> first[i] = x[i]", "y[j] = first[63 - j]", "<> second[i] = y[i]", "z[j] = second[63 - j]"])
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "i:l.0, j:l.0")
    >>> print(lk.lower(knl, stop="storage"))
    shared float32 first[64]
    shared float32 second[64]
    >>> print(lk.lower(lk.alias_temporaries(knl, "first, second", "both"), stop="storage"))
    shared float32 both[64]
    """
    chosen = known_list("temporary", names, kernel.temporaries)
    if len(set(chosen)) < max(len(chosen), 2):
        twice = next((f"twice '{x}'" for x in chosen if chosen.count(x) > 1), str(len(chosen)))
        raise PreconditionError(f"alias_temporaries needs two or more temporaries, not {twice}.",
                                subject="names", hint="name all temporaries that share the memory")
    for name in chosen:
        base = kernel.temporaries[name].base_storage
        if base is not None:
            raise PreconditionError(f"'{name}' has the base storage '{base}' already.", subject=name,
                                    hint="name all temporaries that share the memory in one call")
    base = kernel.fresh_name("temp_storage" if base_name_prefix is None else base_name_prefix)
    require_free(base, (), "The base storage")
    result = annotated(kernel, temporaries={**kernel.temporaries, **{
        name: replace(kernel.temporaries[name], base_storage=base) for name in chosen}})
    require_apart(result, base)
    return result


@transform
def allocate_temporaries_for_base_storage(kernel: LoopKernel) -> LoopKernel:
    """Make one temporary of those that share a base storage, with the name of the base storage.

    Lowering does the same. After this step the kernel shows the subscripts in the shared memory.

    :raises StorageError: as for :func:`alias_temporaries`.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i,j<8}", [
    ...     "<> first[i] = x[i]", "y[j] = first[7 - j]", "<> second[i] = y[i]", "z[j] = second[7 - j]"])
    >>> knl = lk.alias_temporaries(knl, "first, second", "both")
    >>> print(lk.allocate_temporaries_for_base_storage(knl).statements_text)
    for i
      both[i] = x[i]  {id=insn}
    end
    for j
      y[j] = both[7 - j]  {id=insn_0}
    end
    for i
      both[i] = y[i]  {id=insn_1}
    end
    for j
      z[j] = both[7 - j]  {id=insn_2}
    end
    """
    return in_base_storages(kernel)
