package e2e_test

import (
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
)

// What PostgreSQL prints is what arrives: numbers that no float holds, trailing zeros, escapes, and every kind of JSON.
func TestPayloadArrivesByteForByte(t *testing.T) {
	t.Parallel()
	payloads := []string{
		`{"id":9007199254740993,"amt":1.10,"big":327267367867168100000,"u":"\u2028 é","s":"\/"}`,
		`{"small":0.000000000000000000000000000001,"neg":-0.0,"exp":1e400}`,
		`{"long":123456789012345678901234567890.1234567890}`,
		`{"zz":1,"a":{"nested":[1,2.50,null,true,{}]},"":"empty name","key with \"quotes\"":"\t\n\\"}`,
		`"a string"`, `12.340`, `null`, `[]`, `{}`,
		`{"emoji":"🚚","combining":"e\u0301","html":"<&>"}`,
	}
	b := newBed(t, pg15, oneBroker, "order.confirmed")
	b.migrate()
	for _, payload := range payloads {
		b.exec(`
			insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
			values (gen_random_uuid(), 'Order', 'k', 'order.confirmed.v1', $1, $2, 'k')`, payload, b.topics[0])
	}
	b.exec(`
		insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
		values (gen_random_uuid(), 'Order', 'k', 'order.confirmed.v1', jsonb_build_object('pad', repeat('x', 600000)),
			$1, 'k')`, b.topics[0])
	// A record that carried its event's own time could be past the topic's retention when it arrives.
	b.exec(`
		insert into outbox_event
			(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at)
		values (gen_random_uuid(), 'Order', 'k', 'order.confirmed.v1', '{}', $1, 'k', now() - interval '30 days')`,
		b.topics[0])
	started := time.Now()
	relay := b.start(b.relay())
	b.drain(15 * time.Second)
	b.stop(relay)
	report := b.judge(check.History{Start: started})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if want := len(payloads) + 2; report.Records != want {
		t.Errorf("%d records, want %d", report.Records, want)
	}
}
