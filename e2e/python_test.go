package e2e_test

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
)

// The handler that the outbox chapter lists, on the chapter's table, with the packages of our own Python recipe.
func TestEventsOfThePythonHandlerArrive(t *testing.T) {
	t.Parallel()
	b := newBed(t, pg15, oneBroker, "order.confirmed")
	b.migrate()
	b.exec(`
		create table orders (id uuid primary key, customer_id uuid not null, total_amount numeric not null,
			currency text not null, status text not null)`)
	python := filepath.Join(pythonRecipe.installed(t), ".venv", "bin", "python")
	u, err := url.Parse(b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	// The driver has an option of its own for TLS and refuses libpq's.
	u.Scheme, u.RawQuery = "postgresql+asyncpg", ""

	relay := b.start(b.relay())
	const orders = 20
	cmd := exec.CommandContext(b.ctx, python, "testdata/python/handler.py", u.String(), b.topics[0], "20")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run the handler: %v\n%s", err, complaints.String())
	}
	b.drain(15 * time.Second)
	b.stop(relay)

	report := b.judge(check.History{})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Records != orders {
		t.Errorf("%d records, want %d", report.Records, orders)
	}
	sent := map[string]string{}
	for _, r := range b.readTopics() {
		sent[r.Header("event_id")] = string(r.Key)
	}
	for line := range strings.Lines(string(out)) {
		event, aggregate, _ := strings.Cut(strings.TrimSpace(line), " ")
		if sent[event] != aggregate {
			t.Errorf("event %s has key %q, want %q", event, sent[event], aggregate)
		}
	}
}
