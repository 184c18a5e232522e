package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// Subject is something that empties the outbox. To add one, write it in a file of its own and list it in allSubjects.
type Subject interface {
	Name() string
	Traits() traits
	// Prepare makes what it needs beside the outbox, which is there. It is not measured.
	Prepare(ctx context.Context, p place) error
	// Command is the process that does the work until SIGTERM; nil for a subject that needs none.
	Command(p place) *exec.Cmd
}

// traits say which work a subject can be given.
type traits struct {
	ships   bool // publishes to Kafka
	settles bool // marks or deletes what is done
	live    bool // finds events that are written while it runs
	order   bool // several of its kind keep the order of a key
	lanes   bool // shares keys by lanes, and sets events aside: the relay of this project
	process bool // is one
}

// keepsUp tells whether it ships what is written while it runs.
func (t traits) keepsUp() bool { return t.ships && t.live }

// allSubjects lists the subjects. The first is what the ratios refer to, where a scenario has it.
func (o options) allSubjects() []Subject {
	built := &binary{path: o.posthaste}
	ours := traits{ships: true, settles: true, live: true, order: true, lanes: true, process: true}
	plain := ours
	plain.order, plain.lanes = false, false
	all := []Subject{
		handwritten{batch: 50},
		handwritten{batch: 1000},
		posthaste{name: "posthaste", traits: ours, binary: built},
		posthaste{name: "posthaste-wakeup", traits: ours, binary: built, migrate: "--wake-up"},
		posthaste{name: "posthaste-delete", traits: ours, binary: built, env: "POSTHASTE_RELAY_SETTLE=delete"},
		posthaste{name: "posthaste-sync", traits: ours, binary: built, env: "POSTHASTE_RELAY_SETTLE_SYNC=on"},
		posthaste{name: "posthaste-strict", traits: ours, binary: built, env: "POSTHASTE_RELAY_ORDER=strict"},
		posthaste{name: "posthaste-skip-locked", traits: plain, binary: built,
			env: "POSTHASTE_RELAY_CLAIM=skip-locked"},
		markBound{},
		ceiling{},
		floor{},
	}
	if o.storage != "" {
		all = append(all, posthaste{name: "posthaste-storage", traits: ours, binary: built, storage: o.storage})
	}
	return all
}

// self is a relay of this command, as a process.
func self(p place, args ...string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = p.environment(), p.grounds.scratch
	return cmd
}

// bare is for subjects that need nothing beside the outbox.
type bare struct{}

func (bare) Prepare(context.Context, place) error { return nil }

// handwritten is what teams write themselves, done well; see relay_handwritten.go.
type handwritten struct {
	bare
	batch int
}

func (h handwritten) Name() string { return fmt.Sprintf("handwritten-%d", h.batch) }
func (handwritten) Traits() traits {
	return traits{ships: true, settles: true, live: true, process: true}
}
func (h handwritten) Command(p place) *exec.Cmd {
	return self(p, "handwritten", strconv.Itoa(h.batch))
}

// markBound is the speed at which one session can read and mark, without any Kafka; see relay_markbound.go.
type markBound struct{ bare }

func (markBound) Name() string              { return "mark-bound" }
func (markBound) Traits() traits            { return traits{settles: true, process: true} }
func (markBound) Command(p place) *exec.Cmd { return self(p, "markbound") }

// ceiling is the speed at which one session can read and one client produce, when nothing is settled; see
// relay_ceiling.go. What commits late is lost to it.
type ceiling struct{ bare }

func (ceiling) Name() string              { return "ceiling" }
func (ceiling) Traits() traits            { return traits{ships: true, process: true} }
func (ceiling) Command(p place) *exec.Cmd { return self(p, "ceiling") }

// floor is a writer that commits and then sends the event itself: no relay can be sooner. An event whose writer dies in
// between is lost to it. It runs inside the bench's writers; see load.go.
type floor struct{ bare }

func (floor) Name() string            { return "floor" }
func (floor) Traits() traits          { return traits{ships: true, live: true} }
func (floor) Command(place) *exec.Cmd { return nil }
