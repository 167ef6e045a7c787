"""A run written down in YAML: read, checked as a whole without Spark, every error with its place.

```python
checked = load(Path("market.yaml"), ["workers=4"])   # SpecError names all that is wrong
checked.spec.queries, checked.order, checked.subscriptions
```
"""

from evenflow.spec.check import Checked
from evenflow.spec.document import Problem, SpecError
from evenflow.spec.load import load
from evenflow.spec.models import Spec

__all__ = ["Checked", "Problem", "Spec", "SpecError", "load"]
