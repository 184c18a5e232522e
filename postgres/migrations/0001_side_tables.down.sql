drop table {{schema}}.lane;
drop table {{schema}}.member;
drop table {{schema}}.outbox;
drop table {{schema}}.schema_version;
