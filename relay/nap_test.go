package relay

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func lookAt(writers ...string) Result {
	r := Result{Dozing: true, Horizon: &Horizon{}}
	for _, w := range writers {
		r.Horizon.Writers = append(r.Horizon.Writers, Writer{ID: w})
	}
	return r
}

// From the moment at which the word may be out, a writer's call asks for a read, and after the word no sleep is sound
// until the writers have ended who did not see it.
func TestNap(t *testing.T) {
	var n nap
	want := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
	want("a call while awake", n.wake(), false)
	want("a word that must not be said", n.word(false), AsBefore)
	want("the word", n.word(true), Doze)
	want("a call while the word is on its way", n.wake(), true)
	want("the word again", n.word(true), AsBefore)
	n.said(Doze, Result{Horizon: &Horizon{}})
	want("after a word that was not taken", n.state, awake)

	want("the word", n.word(true), Doze)
	n.said(Doze, lookAt("3/7", "4/1"))
	want("beside writers", n.state, wary)
	n.said(AsBefore, lookAt("4/1", "5/2"))
	want("beside one of them", n.state, wary)
	n.said(AsBefore, Result{})
	want("without a look", n.state, wary)
	n.said(AsBefore, lookAt("5/2"))
	want("beside a writer that saw the word", n.state, asleep)

	want("the end", n.word(false), Rise)
	want("a call until that is out", n.wake(), true)
	n.said(Rise, Result{})
	want("after it", n.state, awake)
	want("nobody at work", n.word(true), Doze)
	n.said(Doze, lookAt())
	want("nobody at work", n.state, asleep)
}

// Calls that are for others end the sleep for a while only when they come often.
func TestNapEndsWhereOthersAreBusy(t *testing.T) {
	now := time.Now()
	n := nap{state: asleep}
	call := func(times int, apart time.Duration, useful bool) {
		for range times {
			n.wake()
			if !n.takeWord() || n.takeWord() {
				t.Fatal("a call is answered by one read")
			}
			n.answered(useful, now)
			now = now.Add(apart)
		}
	}
	call(100, 200*time.Millisecond, false)
	if n.restless(now) {
		t.Fatal("five calls a second are borne")
	}
	now = now.Add(2 * uselessTerm)
	call(maxUseless, time.Millisecond, false)
	call(1, time.Millisecond, true)
	call(maxUseless, time.Millisecond, false)
	if n.restless(now) {
		t.Fatal("so few in a row are borne")
	}
	call(1, time.Millisecond, false)
	if !n.restless(now) || n.restless(now.Add(uselessTerm)) {
		t.Fatal("eleven in a row are too much, for a second")
	}
}

// calledStore is a database whose exchanges are answered by the test, and whose writers are the test.
type calledStore struct {
	fakeStore
	asked chan asked
	call  chan func() // each call of a writer comes by it
}

type asked struct {
	Exchange
	answer chan Result
}

func (s *calledStore) Open(context.Context) (Session, error) { return calledSession{store: s}, nil }

func (s *calledStore) Join(ctx context.Context) (Membership, error) {
	m, err := s.fakeStore.Join(ctx)
	return calledMember{m, s}, err
}

type calledMember struct {
	Membership
	store *calledStore
}

func (m calledMember) Beat(ctx context.Context, r Report) (View, error) {
	v, err := m.Membership.Beat(ctx, r)
	v.Listens = true
	return v, err
}

func (m calledMember) Wait(ctx context.Context, woken func()) error {
	for {
		select {
		case done := <-m.store.call:
			woken()
			done()
		case <-ctx.Done():
			return nil
		}
	}
}

type calledSession struct {
	Session
	store *calledStore
}

func (calledSession) Horizons() bool { return true }
func (calledSession) Wakes() bool    { return true }
func (calledSession) Close()         {}

func (s calledSession) Exchange(ctx context.Context, x Exchange) (Result, error) {
	a := asked{x, make(chan Result, 1)}
	select {
	case s.store.asked <- a:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	select {
	case r := <-a.answer:
		return r, nil
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
}

// A writer may commit at any moment while the read is on its way that says Doze, or a later one. It is not seen by that
// read, so another one follows at once and not after the interval.
func TestCallsWhileAReadIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &calledStore{asked: make(chan asked), call: make(chan func())}
		r, err := New(store, silentKafka{}, Config{Interval: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()

		call := func() {
			heard := make(chan struct{})
			store.call <- func() { close(heard) }
			<-heard
			synctest.Wait()
		}
		a := <-store.asked
		for a.Sleep != Doze {
			a.answer <- Result{Horizon: &Horizon{}}
			a = <-store.asked
		}
		for range 3 {
			call()
			answered := time.Now()
			a.answer <- Result{Dozing: a.Sleep == Doze, Horizon: &Horizon{}}
			a = <-store.asked
			if waited := time.Since(answered); waited > time.Millisecond {
				t.Fatalf("the next read came after %s", waited)
			}
		}
		answered := time.Now()
		a.answer <- Result{}
		a = <-store.asked
		if waited := time.Since(answered); waited < time.Second {
			t.Fatalf("nobody called, and the next read came after %s", waited)
		}
		stop()
		close(a.answer)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// silentKafka is there and is sent nothing.
type silentKafka struct{ Publisher }

func (silentKafka) Ping(context.Context) (string, error) { return "", nil }
func (silentKafka) Bind(string)                          {}
func (silentKafka) Answers() <-chan []Answer             { return nil }
