package e2e_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
)

// The statements of docs/reference-sql.md do what it says, under the rights that it says.
func TestReferenceForWritersInSQL(t *testing.T) {
	t.Parallel()
	role := createRole(t, pg15)
	b := newBed(t, pg15, oneBroker, "order.confirmed")
	b.migrate()
	text, err := os.ReadFile("../docs/reference-sql.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/reference-sql.md has %d blocks of SQL, want the insert and the rights", len(blocks))
	}
	insert := strings.Replace(blocks[0][1], "order-service", b.unique, 1)
	b.exec(strings.ReplaceAll(blocks[1][1], "to orders", "to "+role))

	writer := b.as(role)
	for _, test := range []struct {
		sql     string
		allowed bool
	}{
		{insert, true},
		{strings.Replace(insert, ";", " on conflict do nothing;", 1), true},
		{insert, false}, // the event id is taken
		{strings.Replace(insert, ";", " on conflict (event_id) do nothing;", 1), false},
		{strings.Replace(strings.ReplaceAll(insert, "0190f3a2", "0190f3a3"), ";", " returning id;", 1), false},
		{`select 1 from outbox_event`, false},
		{`update outbox_event set published_at = now()`, false},
		{`delete from outbox_event`, false},
		{`select 1 from posthaste.member`, false},
	} {
		if _, err := writer.Exec(b.ctx, test.sql); (err == nil) != test.allowed {
			t.Errorf("allowed %t, want %t (%v)\nfor %s", err == nil, test.allowed, err, test.sql)
		}
	}
	b.exec("grant select (id, event_id) on outbox_event to " + role)
	again := strings.Replace(insert, ";", " on conflict (event_id) do nothing returning id;", 1)
	if _, err := writer.Exec(b.ctx, again); err != nil {
		t.Errorf("repeat an event: %v", err)
	}

	relay := b.start(b.relay())
	b.drain(15 * time.Second)
	b.stop(relay)
	report := b.judge(check.History{})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Records != 1 {
		t.Errorf("%d records, want 1", report.Records)
	}
}
