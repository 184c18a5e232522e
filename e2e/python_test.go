package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"posthaste.dev/posthaste/e2e/check"
)

// A service in another language writes with plain SQL; its events arrive like those of ours.
func TestEventsOfThePythonHandlerArrive(t *testing.T) {
	b := newBed(t, pg15, oneBroker, "order.confirmed")
	b.migrate()
	b.exec(`
		create table orders (id uuid primary key, customer_id uuid not null, total_amount numeric not null,
			currency text not null, status text not null)`)
	python := pythonWith(t, "testdata/python/requirements.txt")
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

// pythonWith returns a Python that has the pinned packages, in a virtual environment that is kept for the next run.
func pythonWith(t *testing.T, requirements string) string {
	t.Helper()
	text, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(cache, "posthaste-e2e", "python-"+hex.EncodeToString(sum[:6]))
	python := filepath.Join(venv, "bin", "python")
	complete := filepath.Join(venv, "complete")
	if _, err := os.Stat(complete); err == nil {
		return python
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", venv},
		{python, "-m", "pip", "install", "--quiet", "--no-deps", "-r", requirements},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("make a virtual environment (this needs Python 3.10 or later with venv): %v\n%s", err, out)
		}
	}
	// A run that was cut off half way leaves no such file, so the next one begins anew.
	if err := os.WriteFile(complete, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return python
}
