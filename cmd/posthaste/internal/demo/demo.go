//go:build unix

// Package demo shows the whole job on one machine: a small order service writes events with its data, two relays ship
// them as processes of their own, one of them is killed with a chunk in flight, and a check that shares no code with
// the relay compares what Kafka has with what the service did.
//
// Servers that are not given are brought along: a real PostgreSQL as a process, and kfake as Kafka inside this process.
// In given ones the demo works in a schema and topics of its own, and touches nothing else. Whatever becomes of it, a
// second process removes what it made (see cleaner).
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"posthaste.dev/posthaste/kafka"
)

// Config says what to run. All fields but the servers' are needed.
type Config struct {
	Out     io.Writer     // for progress and the table; livelier if it is a terminal
	Program string        // path of posthaste itself, which relays and cleaner run
	Command string        // how the user calls it, for what to try
	For     time.Duration // how long the service writes
	Rate    int           // events a second
	Keep    bool          // go on after the check until the context ends

	DatabaseURL string       // "": bring PostgreSQL along
	Kafka       kafka.Config // without brokers: bring Kafka along
}

// demo is one run.
type demo struct {
	Config
	place
	progress *progress
	cleaner  *cleaner
	fail     context.CancelCauseFunc // ends the run with an error

	db       *pgxpool.Pool
	consumer *follower
	relays   []*relay
	service  *service
	blow     blow
	kept     atomic.Bool // the check has passed; what happens now is the user's doing
}

// Run runs the demo. It returns nil when the check has passed, or, with Keep, when the context ends after that. By then
// nothing that it made is left.
func Run(ctx context.Context, cfg Config) (err error) {
	begun := time.Now()
	cleaner, err := startCleaner(cfg.Program)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	d := &demo{Config: cfg, progress: newProgress(cfg.Out), cleaner: cleaner, fail: fail}
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause // what broke because the run was ended tells nothing
		}
		fail(nil)
		err = errors.Join(err, d.end())
	}()
	if err := d.makeFolder(); err != nil {
		return err
	}
	for _, stage := range []func(context.Context) error{
		d.bringPostgres, d.bringKafka, d.prepare, d.startRelays, d.write, d.drain,
	} {
		if err := stage(ctx); err != nil {
			return err
		}
	}
	if err := d.check(ctx, begun); err != nil || !cfg.Keep {
		return err
	}
	return d.keep(ctx)
}

// startRelays starts both and waits until they share the lanes.
func (d *demo) startRelays(ctx context.Context) error {
	return d.progress.step("relays", words("starting two relays"), func() (string, error) {
		for range 2 {
			if _, err := d.addRelay(); err != nil {
				return "", err
			}
		}
		for _, r := range d.relays {
			if err := d.await(ctx, r, func(owned, _ int) bool { return owned > 0 }); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("two processes share the keys: pids %d and %d", d.relays[0].pid(), d.relays[1].pid()), nil
	})
}

// write lets the service write, and kills a relay in the middle.
func (d *demo) write(ctx context.Context) error {
	if err := d.open(ctx); err != nil {
		return err
	}
	writing, stop := context.WithTimeout(ctx, d.For)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := d.service.run(writing, d.Rate); err != nil {
			d.fail(err)
		}
	}()
	defer func() { stop(); <-done }()

	counts := func() string {
		return fmt.Sprintf("%d writers, %s events committed", writers, grouped(d.service.ledger.count()))
	}
	writeUntil := func(end <-chan struct{}) error {
		return d.progress.step("orders", counts, func() (string, error) {
			select {
			case <-end:
				return counts(), context.Cause(ctx)
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
	}
	first, stopFirst := context.WithTimeout(ctx, d.For*2/5)
	defer stopFirst()
	if err := writeUntil(first.Done()); err != nil {
		return err
	}
	if err := d.killOne(ctx); err != nil {
		return err
	}
	return writeUntil(done)
}

// open has every order placed and waits for the events. It brings both relays from idling to work, so that what is
// measured afterwards is that.
func (d *demo) open(ctx context.Context) error {
	return d.progress.step("orders", words("placing orders"), func() (string, error) {
		begun := time.Now()
		if err := d.service.place(ctx); err != nil {
			return "", err
		}
		bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := d.consumer.waitFor(bounded, orders); err != nil {
			return "", err
		}
		took := time.Since(begun).Milliseconds()
		return fmt.Sprintf("%d placed in one transaction, their events in Kafka after %d ms", orders, took), nil
	})
}

// drain waits until the relay has marked every event; what it leaves open is the check's to tell.
func (d *demo) drain(ctx context.Context) error {
	return d.progress.step("drain", words("waiting for the last events"), func() (string, error) {
		bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		for {
			open, err := anyOpen(bounded, d.db, d.table)
			switch {
			case err != nil && ctx.Err() == nil && bounded.Err() != nil:
				return "the relay left events unpublished for 30 s", nil
			case err != nil:
				return "", err
			case !open:
				return "every event is marked as published", nil
			}
			_ = pause(bounded, 20*time.Millisecond)
		}
	})
}

// end stops what runs in this process and hands the rest to the cleaner.
func (d *demo) end() error {
	for _, r := range d.relays {
		r.terminate()
	}
	for _, r := range d.relays {
		r.gone(5 * time.Second)
	}
	if d.consumer != nil {
		d.consumer.close()
	}
	if d.db != nil {
		d.db.Close()
	}
	err := d.cleaner.close()
	if d.broker != nil {
		d.broker.Close()
	}
	if err == nil {
		d.progress.say("clean-up", "nothing is left behind")
	}
	return err
}

// pause waits; the error is why the context ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
