package e2e_test

import (
	"testing"
	"time"
)

// Whatever a database or role says of time zones and formats, and wherever the relay's host believes to be: the relays
// share, nobody is thought dead, and each event's time is the right instant in UTC.
func TestSettingsOfSessionsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Asia/Kathmandu", "Pacific/Fakaofo", "<-12>+12"} {
		t.Run(zone, func(t *testing.T) {
			b := newBed(t, pg15, oneBroker, "order.confirmed")
			b.migrate()
			for setting, value := range map[string]string{
				"timezone": zone, "datestyle": "SQL, DMY", "intervalstyle": "sql_standard", "bytea_output": "escape",
			} {
				b.exec(`alter database ` + b.unique + ` set ` + setting + ` = '` + value + `'`)
			}
			env := []string{"TZ=Pacific/Kiritimati", "POSTHASTE_RELAY_ORDER=strict"}
			// The second relay gets everything as text, the way that is used behind a pooler.
			text := "DATABASE_URL=" + b.dsn + "&default_query_exec_mode=exec"
			first, second := b.start(b.relay(env...)), b.start(b.relay(append(env, text)...))
			b.awaitShares(2)
			b.writeMany(200, 50)
			b.exec(`
				insert into outbox_event
					(event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, created_at)
				select gen_random_uuid(), 'Order', 'a', 'order.confirmed.v1', '{"n": 1}', $1, 'key-' || n,
					timestamptz '2024-02-29 23:59:59.999999+13:45'
				from generate_series(1, 100) n`, b.topics[0])
			b.letPass(span(0, 15*time.Second)) // several leases
			b.writeMany(200, 50)
			b.finish(first, second)
			if n := len(b.readTopics()); n != 500 {
				t.Errorf("%d records, want 500", n)
			}
		})
	}
}
