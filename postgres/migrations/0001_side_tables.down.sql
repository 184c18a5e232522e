drop table {{schema}}.audit;
drop table {{schema}}.topic_look;
drop table {{schema}}.pause;
drop table {{schema}}.parked;
drop table {{schema}}.lane;
drop table {{schema}}.member;
drop table {{schema}}.outbox;
drop table {{schema}}.schema_version;
