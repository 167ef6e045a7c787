# ruff: noqa: S608 - texts of constants only
"""The queries of TPC-H that can be asked of streams, each over windows of five minutes.

Orders and line items are the streams, the other tables are reference tables
(`evenflow.datasets.tpch_q5`). Conditions on the dates of orders and shipments are left out: the
window stands for them. EXISTS over a stream is a LEFT SEMI JOIN or a count per window, ORDER BY
with LIMIT is a rank within the window.
"""

from collections.abc import Mapping

WINDOW = "window(ts, '5 minutes')"
_LINE_WINDOW = "window(l.ts, '5 minutes')"
_REVENUE = "l.l_extendedprice * (1 - l.l_discount)"
_LINES = """FROM lineitem l JOIN orders o ON l.orderkey = o.orderkey
AND l.ts BETWEEN o.ts AND o.ts + INTERVAL 5 MINUTES"""
_SUPPLIER = "JOIN supplier s ON s.s_suppkey = l.l_suppkey"
_CUSTOMER = "JOIN customer c ON c.c_custkey = o.o_custkey"
_PART = "JOIN part p ON p.p_partkey = l.l_partkey"
_PARTSUPP = "JOIN partsupp ps ON ps.ps_suppkey = l.l_suppkey AND ps.ps_partkey = l.l_partkey"


def _nation(alias: str, key: str) -> str:
    return f"JOIN nation {alias} ON {alias}.n_nationkey = {key}"


COLUMNS: Mapping[str, tuple[str, ...]] = {
    "orders": ("o_orderkey", "o_custkey", "o_orderpriority", "o_shippriority", "o_totalprice"),
    "lineitem": (
        "l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_discount",
        "l_tax", "l_returnflag", "l_linestatus", "l_commitdate", "l_receiptdate", "l_shipdate",
        "l_shipinstruct", "l_shipmode",
    ),
    "customer": ("c_custkey", "c_name", "c_nationkey", "c_mktsegment", "c_acctbal"),
    "supplier": ("s_suppkey", "s_name", "s_nationkey"),
    "part": ("p_partkey", "p_name", "p_brand", "p_type", "p_size", "p_container"),
    "partsupp": ("ps_partkey", "ps_suppkey", "ps_availqty", "ps_supplycost"),
    "nation": ("n_nationkey", "n_name", "n_regionkey"),
    "region": ("r_regionkey", "r_name"),
}  # fmt: skip

QUERIES: Mapping[str, str] = {
    "q1": f"""SELECT window.start AS start, l_returnflag, l_linestatus, sum(l_quantity) AS quantity,
sum(l_extendedprice) AS base, sum(l_extendedprice * (1 - l_discount)) AS discounted,
sum(CAST(l_extendedprice * (1 - l_discount) AS DECIMAL(18, 4)) * (1 + l_tax)) AS charge,
avg(l_quantity) AS mean_quantity,
avg(l_extendedprice) AS mean_price, avg(l_discount) AS mean_discount, count(*) AS items
FROM lineitem GROUP BY {WINDOW}, l_returnflag, l_linestatus""",
    "q3": f"""SELECT window.start AS start, l.orderkey, o.o_shippriority,
sum({_REVENUE}) AS revenue {_LINES} {_CUSTOMER} WHERE c.c_mktsegment = 'BUILDING'
GROUP BY {_LINE_WINDOW}, l.orderkey, o.o_shippriority
QUALIFY row_number() OVER (PARTITION BY window ORDER BY revenue DESC, l.orderkey) <= 10""",
    "q4": f"""SELECT window.start AS start, o_orderpriority, count(*) AS orders FROM (
SELECT o.ts, o.o_orderpriority FROM orders o LEFT SEMI JOIN lineitem l ON l.orderkey = o.orderkey
AND l.ts BETWEEN o.ts AND o.ts + INTERVAL 5 MINUTES AND l.l_commitdate < l.l_receiptdate)
GROUP BY {WINDOW}, o_orderpriority""",
    "q5": f"""SELECT window.start AS start, n.n_name, sum({_REVENUE}) AS revenue {_LINES}
{_CUSTOMER} {_SUPPLIER} AND s.s_nationkey = c.c_nationkey {_nation("n", "s.s_nationkey")}
JOIN region r ON r.r_regionkey = n.n_regionkey WHERE r.r_name = 'ASIA'
GROUP BY {_LINE_WINDOW}, n.n_name""",
    "q6": f"""SELECT window.start AS start, sum(l_extendedprice * l_discount) AS revenue
FROM lineitem WHERE l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24 GROUP BY {WINDOW}""",
    "q7": f"""SELECT window.start AS start, n.n_name AS sold_by, m.n_name AS bought_by,
year(l.l_shipdate) AS shipped, sum({_REVENUE}) AS revenue {_LINES} {_CUSTOMER} {_SUPPLIER}
{_nation("n", "s.s_nationkey")} {_nation("m", "c.c_nationkey")}
WHERE n.n_name <> m.n_name AND n.n_name IN ('FRANCE', 'KENYA', 'PERU')
AND m.n_name IN ('FRANCE', 'KENYA', 'PERU')
GROUP BY {_LINE_WINDOW}, n.n_name, m.n_name, year(l.l_shipdate)""",
    "q8": f"""SELECT window.start AS start, sum(CASE WHEN n.n_name = 'BRAZIL' THEN {_REVENUE}
ELSE 0 END) / sum({_REVENUE}) AS share {_LINES} {_CUSTOMER} {_SUPPLIER} {_PART}
{_nation("m", "c.c_nationkey")} JOIN region r ON r.r_regionkey = m.n_regionkey
{_nation("n", "s.s_nationkey")} WHERE r.r_name = 'AMERICA' AND p.p_type LIKE 'ECONOMY%'
GROUP BY {_LINE_WINDOW}""",
    "q9": f"""SELECT window.start AS start, n.n_name AS nation,
sum({_REVENUE} - ps.ps_supplycost * l.l_quantity) AS profit {_LINES} {_SUPPLIER} {_PART} {_PARTSUPP}
{_nation("n", "s.s_nationkey")} WHERE p.p_name LIKE '%green%' GROUP BY {_LINE_WINDOW}, n.n_name""",
    "q10": f"""SELECT window.start AS start, c.c_custkey, c.c_name, c.c_acctbal, n.n_name,
sum({_REVENUE}) AS revenue {_LINES} {_CUSTOMER} {_nation("n", "c.c_nationkey")}
WHERE l.l_returnflag = 'R' GROUP BY {_LINE_WINDOW}, c.c_custkey, c.c_name, c.c_acctbal, n.n_name
QUALIFY row_number() OVER (PARTITION BY window ORDER BY revenue DESC, c_custkey) <= 20""",
    "q12": f"""SELECT window.start AS start, l.l_shipmode,
count_if(o.o_orderpriority IN ('1-URGENT', '2-HIGH')) AS high,
count_if(o.o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) AS low {_LINES}
WHERE l.l_shipmode IN ('MAIL', 'SHIP') AND l.l_commitdate < l.l_receiptdate
AND l.l_shipdate < l.l_commitdate GROUP BY {_LINE_WINDOW}, l.l_shipmode""",
    "q13": f"""SELECT w.start AS start, orders, count(*) AS customers FROM (
SELECT window AS w, o_custkey, count(*) AS orders FROM orders GROUP BY {WINDOW}, o_custkey)
GROUP BY w, orders""",
    "q14": f"""SELECT window.start AS start, 100.00 * CAST(sum(CASE WHEN p.p_type LIKE 'PROMO%'
THEN {_REVENUE} ELSE 0 END) AS DECIMAL(30, 4)) / sum({_REVENUE}) AS promotion
FROM lineitem l {_PART} GROUP BY {_LINE_WINDOW}""",
    "q15": f"""SELECT start, l_suppkey, s.s_name, revenue FROM (
SELECT window.start AS start, l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem GROUP BY {WINDOW}, l_suppkey
QUALIFY rank() OVER (PARTITION BY window ORDER BY revenue DESC) = 1) l {_SUPPLIER}""",
    "q17": f"""SELECT w.start AS start, sum(l_extendedprice) / 7.0 AS yearly FROM (
SELECT window(l.ts, '5 minutes') AS w, l.l_extendedprice, l.l_quantity, avg(l.l_quantity) OVER (
PARTITION BY {_LINE_WINDOW}, l.l_partkey) AS mean FROM lineitem l {_PART}
WHERE p.p_brand LIKE 'Brand#1%') WHERE l_quantity < 0.8 * mean GROUP BY w""",
    "q18": f"""SELECT window.start AS start, c.c_name, c.c_custkey, l.orderkey, o.o_totalprice,
sum(l.l_quantity) AS quantity {_LINES} {_CUSTOMER}
GROUP BY {_LINE_WINDOW}, c.c_name, c.c_custkey, l.orderkey, o.o_totalprice
HAVING sum(l.l_quantity) > 150
QUALIFY row_number() OVER (PARTITION BY window ORDER BY o_totalprice DESC, l.orderkey) <= 100""",
    "q19": f"""SELECT window.start AS start, sum({_REVENUE}) AS revenue FROM lineitem l {_PART}
WHERE l.l_shipmode IN ('AIR', 'AIR REG') AND l.l_shipinstruct = 'DELIVER IN PERSON' AND (
p.p_brand LIKE 'Brand#1%' AND p.p_container LIKE 'SM%' AND l.l_quantity BETWEEN 1 AND 21
OR p.p_brand LIKE 'Brand#2%' AND p.p_container LIKE 'MED%' AND l.l_quantity BETWEEN 10 AND 30
OR p.p_brand LIKE 'Brand#3%' AND p.p_container LIKE 'LG%' AND l.l_quantity BETWEEN 20 AND 40)
GROUP BY {_LINE_WINDOW}""",
    "q20": f"""SELECT DISTINCT l.w.start AS start, s.s_name FROM (
SELECT window AS w, l_partkey, l_suppkey, sum(l_quantity) AS sold FROM lineitem
GROUP BY {WINDOW}, l_partkey, l_suppkey) l {_PART} {_PARTSUPP} {_SUPPLIER}
{_nation("n", "s.s_nationkey")} WHERE p.p_name LIKE '%e%' AND ps.ps_availqty > 0.5 * l.sold
AND n.n_name IN ('CANADA', 'CHINA', 'FRANCE')""",
    "q21": f"""SELECT w.start AS start, s.s_name, count(*) AS orders FROM (
SELECT window AS w, orderkey, max(CASE WHEN l_receiptdate > l_commitdate THEN l_suppkey END)
AS l_suppkey FROM lineitem GROUP BY {WINDOW}, orderkey HAVING count(DISTINCT l_suppkey) > 1 AND
count(DISTINCT CASE WHEN l_receiptdate > l_commitdate THEN l_suppkey END) = 1) l {_SUPPLIER}
GROUP BY w, s.s_name""",
}
# The others, and why they are not asked.
_NO_STREAM = "reads neither orders nor line items"
NOT_CONTINUOUS: Mapping[str, str] = {
    "q2": _NO_STREAM,
    "q11": _NO_STREAM,
    "q16": _NO_STREAM,
    "q22": "returns customers without any order: rows of a table are never complete",
}
