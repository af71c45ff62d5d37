"""torch.compile and record_function: dynamo knows torch's own label and leaves it out of the graph; ours is to be
treated alike, or each label in a compiled function would break its graph."""

from __future__ import annotations

from typing import Any

from .._imports import when_imported
from .._record import record_function


def teach() -> None:
    """Add ours to dynamo's tables, as soon as dynamo is imported. Where a torch has no such tables, labels break
    graphs, and no more."""
    when_imported("torch._dynamo", _add)


def _add() -> None:
    try:
        from torch._dynamo.guards import GuardBuilder
        from torch._dynamo.variables import builder
        from torch._dynamo.variables.torch import TorchCtxManagerClassVariable

        from .._torch_own import record_function as theirs

        def label_class(self: Any, value: Any) -> Any:
            self.install_guards(getattr(GuardBuilder, "CLASS_MATCH", GuardBuilder.FUNCTION_MATCH))
            return TorchCtxManagerClassVariable(theirs, source=self.source)

        def label_object(self: Any, value: Any) -> Any:
            self.install_guards(GuardBuilder.ID_MATCH)
            return builder.RecordFunctionVariable(theirs(value.name, value.args))

        builder.VariableBuilder._id_dispatch()[id(record_function)] = label_class
        if hasattr(builder, "RecordFunctionVariable"):
            builder.VariableBuilder._type_dispatch()[record_function] = label_object
    except (ImportError, AttributeError, TypeError):
        pass
