-- Lets a scaler read how much there is to do, and nothing else. Written by `towpath db scaler-role`.
--
-- Run it with psql as the role that owns Towpath's tables and may create roles, in the database of the tables, after
-- `towpath db upgrade`; run it anew when a newer Towpath's script differs. Nothing happens twice.
--
-- The view is read with the rights of its owner, so the role needs none on the tables: no message, payload, key or
-- error can be reached through it. The role has no password, so nobody can log in as it yet: give it one with
-- \password towpath_scaler in psql, or as your database service does it.

BEGIN;

CREATE OR REPLACE VIEW towpath_backlog WITH (security_barrier) AS
SELECT counted.name AS subscription, CASE WHEN (CASE WHEN counted.is_served THEN 0 + counted.due + counted.due_lanes + counted.touched_lanes ELSE 0 END > 1000) THEN 1000 ELSE CASE WHEN counted.is_served THEN 0 + counted.due + counted.due_lanes + counted.touched_lanes ELSE 0 END END AS claimable, CASE WHEN (0 + counted.leased + counted.held_lanes > 1000) THEN 1000 ELSE 0 + counted.leased + counted.held_lanes END AS in_flight, CASE WHEN counted.is_served THEN 0 + counted.due + counted.due_lanes + counted.touched_lanes ELSE 0 END > 1000 OR counted.is_served AND counted.touches = 10000 AS claimable_capped, 0 + counted.leased + counted.held_lanes > 1000 OR counted.leased_looked_at = 10000 OR counted.held_lanes_looked_at = 10000 AS in_flight_capped
FROM (SELECT towpath_subscription.name AS name, towpath_subscription.status = 'active' AND NOT towpath_subscription.paused AS is_served, (SELECT count(*) AS count_1
FROM (SELECT towpath_delivery.message_ordinal AS message_ordinal
FROM towpath_delivery
WHERE towpath_delivery.subscription_id = towpath_subscription.id AND towpath_delivery.lane IS NULL AND towpath_delivery.due_at IS NOT NULL AND towpath_delivery.due_at <= (SELECT clock_timestamp() AS anon_2) ORDER BY towpath_delivery.due_at
 LIMIT 1001) AS anon_1) AS due, (SELECT count(*) AS count_2
FROM (SELECT towpath_lane.lane AS lane
FROM towpath_lane
WHERE towpath_lane.subscription_id = towpath_subscription.id AND towpath_lane.due_at <= (SELECT clock_timestamp() AS anon_4) ORDER BY towpath_lane.due_at
 LIMIT 1001) AS anon_3) AS due_lanes, (SELECT count(*) AS count_3
FROM (SELECT touches.lane AS lane
FROM (SELECT towpath_touched_lane.subscription_id AS subscription_id, towpath_touched_lane.lane AS lane
FROM towpath_touched_lane
WHERE towpath_touched_lane.subscription_id = ANY (ARRAY[towpath_subscription.id]) ORDER BY towpath_touched_lane.subscription_id, towpath_touched_lane.id
 LIMIT 10000) AS touches
WHERE NOT (EXISTS (SELECT *
FROM towpath_lane AS known
WHERE known.subscription_id = touches.subscription_id AND known.lane = touches.lane AND (known.due_at <= (SELECT clock_timestamp() AS anon_6) OR known.held_ordinal IS NOT NULL))) GROUP BY touches.lane
 LIMIT 1001) AS anon_5) AS touched_lanes, (SELECT count(*) AS count_4
FROM (SELECT towpath_touched_lane.subscription_id AS subscription_id, towpath_touched_lane.lane AS lane
FROM towpath_touched_lane
WHERE towpath_touched_lane.subscription_id = ANY (ARRAY[towpath_subscription.id]) ORDER BY towpath_touched_lane.subscription_id, towpath_touched_lane.id
 LIMIT 10000) AS anon_7) AS touches, (SELECT count(*) AS count_5
FROM (SELECT towpath_delivery.state = 'leased' AND NOT (towpath_delivery.lease_expires_at IS NULL OR towpath_delivery.lease_expires_at <= (SELECT clock_timestamp() AS anon_9)) AS leased
FROM towpath_delivery
WHERE towpath_delivery.subscription_id = towpath_subscription.id AND towpath_delivery.lane IS NULL AND towpath_delivery.due_at IS NOT NULL AND towpath_delivery.due_at > (SELECT clock_timestamp() AS anon_10) ORDER BY towpath_delivery.due_at
 LIMIT 10000) AS anon_8) AS leased_looked_at, (SELECT count(*) AS count_6
FROM (SELECT towpath_lane.held_ordinal IS NOT NULL AS leased
FROM towpath_lane
WHERE towpath_lane.subscription_id = towpath_subscription.id AND towpath_lane.due_at > (SELECT clock_timestamp() AS anon_12) ORDER BY towpath_lane.due_at
 LIMIT 10000) AS anon_11) AS held_lanes_looked_at, (SELECT count(*) AS count_7
FROM (SELECT towpath_delivery.state = 'leased' AND NOT (towpath_delivery.lease_expires_at IS NULL OR towpath_delivery.lease_expires_at <= (SELECT clock_timestamp() AS anon_9)) AS leased
FROM towpath_delivery
WHERE towpath_delivery.subscription_id = towpath_subscription.id AND towpath_delivery.lane IS NULL AND towpath_delivery.due_at IS NOT NULL AND towpath_delivery.due_at > (SELECT clock_timestamp() AS anon_10) ORDER BY towpath_delivery.due_at
 LIMIT 10000) AS anon_13
WHERE anon_13.leased) AS leased, (SELECT count(*) AS count_8
FROM (SELECT towpath_lane.held_ordinal IS NOT NULL AS leased
FROM towpath_lane
WHERE towpath_lane.subscription_id = towpath_subscription.id AND towpath_lane.due_at > (SELECT clock_timestamp() AS anon_12) ORDER BY towpath_lane.due_at
 LIMIT 10000) AS anon_14
WHERE anon_14.leased) AS held_lanes
FROM towpath_subscription
WHERE towpath_subscription.removed_at IS NULL) AS counted;

COMMENT ON VIEW towpath_backlog IS 'What towpath backlog shows: backlog = claimable + in_flight, each 1,000 at most';

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles
               WHERE rolname = 'towpath_scaler' AND has_table_privilege(oid, 'towpath_delivery', 'INSERT')) THEN
        -- Workers that log in as it could write nothing any more.
        RAISE EXCEPTION 'the role % may write to the tables; give a scaler a role of its own', 'towpath_scaler';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'towpath_scaler') THEN
        CREATE ROLE towpath_scaler LOGIN NOINHERIT CONNECTION LIMIT 10;
    END IF;
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), 'towpath_scaler');
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), 'towpath_scaler');
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET search_path = %I', 'towpath_scaler', current_database(),
                   current_schema());
END
$$;
ALTER ROLE towpath_scaler SET default_transaction_read_only = on;
ALTER ROLE towpath_scaler SET statement_timeout = '5s';
ALTER ROLE towpath_scaler SET lock_timeout = '1s';
-- So the counts walk the indexes in their order and end at their limits, however wrong the server's estimates are.
ALTER ROLE towpath_scaler SET enable_bitmapscan = off;
ALTER ROLE towpath_scaler SET enable_seqscan = off;

REVOKE ALL ON towpath_backlog FROM PUBLIC;
GRANT SELECT ON towpath_backlog TO towpath_scaler;

COMMIT;
