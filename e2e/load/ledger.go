package load

import (
	"slices"
	"sync"

	"posthaste.dev/posthaste/e2e/check"
)

// Ledger is the writers' own word on what they did. It may be used concurrently.
type Ledger struct {
	mu         sync.Mutex
	committed  []check.Event
	rolledBack int // events
}

func (l *Ledger) commit(events []check.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed = append(l.committed, events...)
}

func (l *Ledger) rollBack(events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rolledBack += events
}

// Committed returns the events whose commit has returned.
func (l *Ledger) Committed() []check.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.committed)
}

// RolledBack returns how many events were written and taken back.
func (l *Ledger) RolledBack() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rolledBack
}
