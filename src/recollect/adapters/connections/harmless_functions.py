"""The functions that a SELECT in an outside database may call: they compute from their arguments and do nothing else.

Everything that is not listed is refused, whatever the login may do: reading files, sleeping, locks, sequences,
settings, other servers, large objects, and functions that somebody defined in the database.
"""

from __future__ import annotations

_EVERYWHERE = """
    abs acos asin atan atan2 avg ceil ceiling coalesce concat cos count cume_dist dense_rank exp first_value floor
    greatest group_concat lag last_value lead least ln log log10 lower ltrim max min mod nth_value ntile nullif
    percent_rank pi pow power radians rank replace round row_number rtrim sign sin sqrt substr substring sum tan trim
    upper cast extract date time current_date current_time current_timestamp localtime localtimestamp position
"""
_POSTGRESQL = """
    age array array_agg array_length array_position array_to_string ascii bit_and bit_length bit_or bool_and bool_or
    btrim cardinality cbrt char_length character_length chr concat_ws corr cot covar_pop covar_samp date_bin date_part
    date_trunc degrees div encode every factorial format gcd generate_series initcap isfinite json_agg
    json_array_elements json_array_elements_text json_array_length json_build_object json_each json_each_text
    json_extract_path json_extract_path_text json_object_agg json_object_keys json_typeof jsonb_agg
    jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_object jsonb_each jsonb_each_text
    jsonb_extract_path jsonb_extract_path_text jsonb_object_agg jsonb_object_keys jsonb_typeof justify_days
    justify_hours justify_interval lcm left length lower_inc lpad make_date make_interval make_time make_timestamp
    make_timestamptz md5 mode now num_nonnulls num_nulls octet_length overlay percentile_cont percentile_disc random
    regexp_count regexp_like regexp_match regexp_replace regexp_split_to_array regexp_substr regr_count regr_intercept
    regr_r2 regr_slope repeat reverse right row row_to_json rpad scale split_part starts_with stddev stddev_pop
    stddev_samp string_agg string_to_array strpos timezone to_char to_date to_json to_jsonb to_number to_timestamp
    translate trim_scale trunc unnest var_pop var_samp variance width_bucket
"""
_MYSQL = """
    adddate addtime ascii bin bit_and bit_count bit_length bit_or bit_xor char char_length character_length concat_ws
    conv convert_tz cot crc32 curdate curtime date_add date_format date_sub datediff day dayname dayofmonth dayofweek
    dayofyear degrees elt export_set field find_in_set format from_days from_unixtime hex hour if ifnull insert instr
    isnull json_arrayagg json_array json_contains json_depth json_extract json_keys json_length json_object
    json_objectagg json_overlaps json_quote json_search json_type json_unquote json_valid json_value last_day lcase
    left length locate log2 lpad makedate maketime md5 microsecond mid minute month monthname now octet_length ord
    period_add period_diff quarter quote rand regexp_instr regexp_like regexp_replace regexp_substr repeat reverse
    right rpad sec_to_time second sha1 sha2 soundex space std stddev stddev_pop stddev_samp str_to_date strcmp subdate
    substring_index subtime sysdate timediff timestamp timestampadd timestampdiff time_format time_to_sec to_days
    to_seconds truncate ucase unhex unix_timestamp utc_date utc_time utc_timestamp var_pop var_samp variance week
    weekday weekofyear year yearweek st_astext st_x st_y st_distance values
"""
_SQLITE = """
    acosh asinh atanh char concat_ws cosh datetime degrees format glob hex ifnull iif instr json json_array
    json_array_length json_extract json_group_array json_group_object json_object json_quote
    json_type json_valid julianday length like likelihood likely log2 octet_length printf quote random sinh strftime
    string_agg tanh timediff total trunc typeof unhex unicode unistr unixepoch unlikely
"""
# What may stand before a bracket without being a function.
_KEYWORDS = """
    all and any array as between by case distinct else end escape except exists filter from full group having ilike in
    inner intersect interval is join lateral left like limit not offset on or order outer over partition recursive right
    rows select some sets then union using values when where with within rollup cube regexp rlike div mod xor ordinality
    materialized against collate range window cross natural binary similar to distinctrow isnull notnull
    bigint bit char character date datetime dec decimal double float int integer numeric real signed smallint text time
    timestamp timestamptz tinyint unsigned varchar blob boolean json jsonb uuid varying nchar
"""
TABLE_FUNCTIONS = frozenset(
    "generate_series unnest json_each json_tree json_array_elements json_array_elements_text jsonb_array_elements "
    "jsonb_array_elements_text jsonb_each jsonb_each_text json_each_text".split()
)
KEYWORDS = frozenset(_KEYWORDS.split())
HARMLESS: dict[str, frozenset[str]] = {
    "postgresql": frozenset([*_EVERYWHERE.split(), *_POSTGRESQL.split()]),
    "mysql": frozenset([*_EVERYWHERE.split(), *_MYSQL.split()]),
    "sqlite": frozenset([*_EVERYWHERE.split(), *_SQLITE.split()]),
}
# They can be written without brackets, and tell about the server and the login.
BARE = frozenset(
    "current_user session_user user system_user current_role current_catalog current_schema current_database "
    "current_setting".split()
)
