"""Specifications: runs described in YAML, checked as a whole without Spark.

```python
checked = load_spec(Path("market.yaml"), ["workers=4"])   # SpecError lists all problems
checked.spec.queries, checked.order, checked.subscriptions
```
"""

from evenflow.spec.check import CheckedSpec
from evenflow.spec.document import SpecError, SpecProblem
from evenflow.spec.load import checkpoint_of, load_spec
from evenflow.spec.models import Spec

__all__ = ["CheckedSpec", "Spec", "SpecError", "SpecProblem", "checkpoint_of", "load_spec"]
