"""A run written down in YAML: read, checked as a whole without Spark, every error with its place.

```python
checked = load(Path("market.yaml"), ["workers=4"])   # SpecError names all that is wrong
checked.spec.queries, checked.order, checked.subscriptions
```
"""

from evenflow.spec.check import CheckedSpec
from evenflow.spec.document import SpecError, SpecProblem
from evenflow.spec.load import load_spec
from evenflow.spec.models import Spec

__all__ = ["CheckedSpec", "Spec", "SpecError", "SpecProblem", "load_spec"]
