"""Calls with all of their arguments fixed."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopkit.runtime.cuda.faults import reported
from loopkit.runtime.cuda.hosted import HostedLaunches
from loopkit.runtime.cuda.ready import ReadyCall
from loopkit.runtime.outputs import Outputs


class BoundCudaCall:
    """A call on a GPU with all arguments fixed; made by :meth:`CompiledKernel.bind`.

    The arrays are checked once, when it is made, and kept alive. Calling it launches on the stream that their library
    works on at that moment.
    """

    def __init__(self, ready: ReadyCall, values: Sequence[Any], addresses: Sequence[int], originals: Sequence[Any]
                 ) -> None:
        ready.check(addresses)
        self._ready = ready
        self._arguments = (values, addresses, originals)
        self._direct = ready.stream_if_fixed
        if self._direct is None:
            return
        with reported(ready.gpu, ready.kernel), ready.gpu:
            # a library would reuse it in the order of the stream that it was made on, which runs need not be on
            self._scratch = list(ready.make_scratch(own=True))
        self._addresses = [*addresses, *(pointer for _, pointer in self._scratch)]
        self._scalars = [convert(values[i]) for i, convert in ready.scalars]
        self._launches = None if isinstance(ready.launches, HostedLaunches) else ready.launches
        for launch in self._launches or ():
            launch.fix(self._addresses, self._scalars)
        self._outputs = ready.outputs(originals, ())

    @property
    def number_of_launches(self) -> int:
        return len(self._ready.launches)

    def __call__(self) -> Outputs:
        if self._direct is None:
            values, addresses, originals = self._arguments
            return self._ready(values, [*addresses], originals)
        stream = self._direct()
        if self._launches is None:
            self._ready.launch(self._addresses, self._scalars, stream)
            return self._outputs
        for launch in self._launches:
            code = launch.again(stream)
            if code:
                self._ready.again(code, launch, self._addresses, self._scalars, stream)
        return self._outputs
