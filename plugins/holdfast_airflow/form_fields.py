"""Fields of the DAGs' forms."""

from __future__ import annotations

import copy
from typing import Any

from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError

NO_VALUE: Any = Param().value
"""Airflow's mark of a param without a default."""

_FITTING: dict[tuple[str, str], bool] = {}
"""Whether a value fits a schema, by both as text."""


class FormField(Param):
    """Param whose default is compared with its schema once in a process.

    Airflow compares them when a DAG is made, and three times for each task when the DAG is stored. Each time it checks
    the schema itself, too: that was half of the time that the DAG files took. Airflow also copies each param for each
    class of an operator; copies of this one share the schema.
    """

    @classmethod
    def of(cls, param: Param) -> FormField:
        """Return a field with the value and the schema of a param."""
        return cls(param.value, param.description, param.source, schema=param.schema)

    def __copy__(self) -> FormField:
        return self.of(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> FormField:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        if isinstance(self.value, list | dict):
            made.value = copy.deepcopy(self.value, memo)
        return made

    def resolve(self, value: Any = NO_VALUE, suppress_exception: bool = False) -> Any:
        """Return the field's value, by the rules of Airflow's method.

        :param value: instead of the default; it is always checked.
        :raises ParamValidationError: the value does not fit.
        """
        if value is not NO_VALUE or isinstance(self.value, type(NO_VALUE)):
            return super().resolve(value, suppress_exception)
        key = (repr(self.value), repr(self.schema))
        if key not in _FITTING:
            try:
                super().resolve()
                _FITTING[key] = True
            except ParamValidationError:
                _FITTING[key] = False
        if _FITTING[key]:
            return self.value
        return None if suppress_exception else super().resolve()


# Airflow stores a param by this name as it is, and takes all others to be plain values.
FormField.__module__, FormField.__name__ = Param.__module__, Param.__name__
