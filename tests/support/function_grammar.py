"""Templates of functions for the fuzzer: result, text, kinds of operands."""

Rule = tuple[str, str, tuple[str, ...]]
_TEMPLATES: dict[str, dict[str, str]] = {  # kinds of operands -> result -> templates, by ;
    "STR": {
        "STR": "trim({0});ltrim({0});rtrim({0});btrim({0}, 'a');initcap({0});reverse({0});"
        "substring({0}, -2, 2);lpad({0}, 5, 'xy');rpad({0}, 3);left({0}, 2);right({0}, 1);"
        "repeat({0}, 2);translate({0}, 'ab', 'x');substring_index({0}, 'a', 1);soundex({0});"
        "base64({0});hex({0});sha2({0}, 256);sha1({0});url_encode({0});mask({0});"
        "regexp_replace({0}, '[a-z]', '_');regexp_extract({0}, '([0-9]+)', 1);"
        "split_part({0}, 'b', 1);get_json_object({0}, '$.a');overlay({0} PLACING 'z' FROM 2);"
        "CAST(CAST({0} AS BINARY) AS STRING);array_join(split({0}, 'a'), '-')",
        "I32": "ascii({0});octet_length({0});bit_length({0});instr({0}, 'a');locate('a', {0}, 2);"
        "hash({0});size(split({0}, '[ab]'));regexp_count({0}, 'a');json_array_length({0})",
        "I64": "crc32({0});xxhash64({0})",
        "BOOL": "({0} RLIKE '^[a-z]*$');({0} ILIKE 'A%');luhn_check({0});isnull({0})",
        "F64": "TRY_CAST({0} AS DOUBLE)",
        "TS": "TRY_CAST({0} AS TIMESTAMP);try_to_timestamp({0}, 'yyyy-MM-dd')",
    },
    "STR STR": {
        "STR": "replace({0}, {1}, 'q');concat_ws('-', {0}, {1});translate({0}, {1}, 'z');"
        "format_string('%s|%5s', {0}, {1});array_join(array({0}, {1}), ',', '?')",
        "I32": "instr({0}, {1});locate({1}, {0});find_in_set({0}, {1});hash({0}, {1})",
        "BOOL": "equal_null({0}, {1});({0} IS DISTINCT FROM {1});array_contains(array({0}), {1})",
    },
    "F64": {
        "F64": "rint({0});sign({0});bround({0}, 1);bround({0});nanvl({0}, 1.0D);degrees(sign({0}))",
        "STR": "CAST({0} AS STRING);format_number({0}, 2);format_string('%.2f', {0})",
        "I32": "hash({0})", "I64": "xxhash64({0})", "BOOL": "CAST({0} AS BOOLEAN)",
    },
    "F32": {"STR": "CAST({0} AS STRING)", "I32": "hash({0})", "F32": "bround({0}, 1)"},
    "I32": {
        "I32": "({0} & 6);({0} | 6);({0} ^ 5);(~{0});bit_count({0});shiftleft({0}, 3);"
        "shiftright({0}, 2);shiftrightunsigned({0}, 1);try_add({0}, 1);hash({0});"
        "array_max(array({0}, 3));aggregate(array({0}, 1), 0, (s, x) -> s | coalesce(x, 0))",
        "STR": "hex({0});bin({0});conv({0}, 10, 16);lpad({0}, 4, '0');char({0})",
        "I64": "xxhash64({0});factorial({0})", "F64": "bround({0} * 0.5D, 0)",
        "BOOL": "CAST({0} AS BOOLEAN);exists(array({0}, 2), x -> x > 1)",
    },
    "I64": {
        "I64": "({0} & 255);shiftleft({0}, 7);shiftright({0}, 3);try_multiply({0}, {0});"
        "try_subtract({0}, 1L);shiftrightunsigned({0}, 5)",
        "STR": "hex({0});bin({0})", "I32": "bit_count({0});hash({0})",
    },
    "DEC": {
        "STR": "format_number({0}, 1)", "I32": "hash({0})",
        "WIDE": "CAST({0} / 7 AS DECIMAL(38,6))",
    },
    "DEC DEC": {"WIDE": "CAST(try_divide({0}, {1}) AS DECIMAL(38,6))"},
    "DATE": {
        "DATE": "date_add({0}, 3);date_sub({0}, 40);add_months({0}, -1);last_day({0});"
        "next_day({0}, 'Fri');trunc({0}, 'MM');trunc({0}, 'week');({0} + 1);"
        "({0} + INTERVAL 1 MONTH)",
        "I32": "quarter({0});dayofyear({0});weekofyear({0});dayofweek({0});weekday({0});"
        "unix_date({0});hash({0});extract(DOY FROM {0})",
        "STR": "date_format({0}, 'yyyy-MM-dd EEE');dayname({0});CAST({0} AS STRING)",
    },
    "DATE DATE": {"I32": "datediff({0}, {1})", "F64": "months_between({0}, {1})"},
    "TS": {
        "I64": "unix_timestamp({0});timestampdiff(HOUR, {0}, TIMESTAMP '2024-01-01 00:00:00')",
        "STR": "CAST({0} AS STRING);date_format({0}, 'HH:mm:ss.SSS');date_format({0}, 'd MMM yy')",
        "I32": "hash({0});weekofyear({0});extract(MINUTE FROM {0})",
        "F64": "CAST({0} AS DOUBLE)",
        "TS": "from_utc_timestamp({0}, 'Europe/Berlin');to_utc_timestamp({0}, 'Asia/Tokyo');"
        "({0} + INTERVAL 1 MONTH);timestampadd(MINUTE, 90, {0})",
    },
}  # fmt: skip


def function_rules() -> list[Rule]:
    """Return the rules of the grammar."""
    return [
        (result, template, tuple(operands.split()))
        for operands, results in _TEMPLATES.items()
        for result, templates in results.items()
        for template in templates.split(";")
    ]
