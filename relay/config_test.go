package relay

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestDefaultsLoseNoField sets every field to something and expects WithDefaults to leave it, and expects every field
// to get a default.
func TestDefaultsLoseNoField(t *testing.T) {
	var full Config
	v := reflect.ValueOf(&full).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Int, reflect.Int64:
			f.SetInt(77)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		default:
			t.Fatalf("field %s: teach this test its kind %v", v.Type().Field(i).Name, f.Kind())
		}
	}
	if got := full.WithDefaults(); !reflect.DeepEqual(got, full) {
		t.Errorf("WithDefaults changed what was set: %+v", got)
	}
	d := reflect.ValueOf(Config{}.WithDefaults())
	for i := range d.NumField() {
		if d.Field(i).IsZero() && d.Type().Field(i).Name != "Topics" {
			t.Errorf("field %s has no default", d.Type().Field(i).Name)
		}
	}
	if err := (Config{}).WithDefaults().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestValidateNamesEveryWrongValue(t *testing.T) {
	err := Config{Claim: "all", Order: "none", Interval: -1, Batch: -1, BatchMax: 20_000, Memory: 1, Lease: time.Second,
		BeatInterval: time.Minute, SweepInterval: 1, ClaimTimeout: 1, DrainTimeout: 1}.Validate()
	if err == nil {
		t.Fatal("nothing refused")
	}
	for _, name := range []string{"POSTHASTE_RELAY_CLAIM=all", "POSTHASTE_RELAY_ORDER=none",
		"OUTBOX_RELAY_INTERVAL_SECONDS", "OUTBOX_RELAY_BATCH_SIZE=-1", "POSTHASTE_RELAY_BATCH_MAX=20000",
		"POSTHASTE_RELAY_MEMORY=1", "POSTHASTE_RELAY_LEASE=1s", "BeatInterval", "POSTHASTE_RELAY_SWEEP_INTERVAL",
		"POSTHASTE_RELAY_CLAIM_TIMEOUT", "POSTHASTE_RELAY_DRAIN_TIMEOUT"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
	if err := (Config{Claim: ClaimSkipLocked, Order: OrderStrict}).WithDefaults().Validate(); err == nil {
		t.Error("strict order with skip-locked is not refused")
	}
}

func TestValidateNamesEveryWrongRule(t *testing.T) {
	err := Config{Topics: []TopicRule{{Match: "a.*"}, {Match: "a.b*"}, {Match: "a b"},
		{Match: "c", Interval: 2 * time.Hour},
		{Match: "d", Batch: 3000}, {Match: "*", Batch: 10, Interval: time.Second}}}.WithDefaults().Validate()
	for _, want := range []string{`rule "a.b*": it never counts`, `rule "a b"`, `rule "c": interval 2h`,
		`rule "d": batch 3000`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %s: %v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "rule"); n != 5 {
		t.Errorf("more is wrong than what is: %v", err)
	}
	if (Config{Topics: make([]TopicRule, maxRules+1)}).WithDefaults().Validate() == nil {
		t.Error("more rules than there is room for are accepted")
	}
}

func TestPacersKeepTheClassesApart(t *testing.T) {
	p := newPacers(Config{Topics: []TopicRule{
		{Match: "slow", Interval: 5 * time.Second},
		{Match: "quick", Interval: 100 * time.Millisecond, Batch: 7},
	}}.WithDefaults())
	const slow, quick, rest = 1, 2, 4
	ofSlow, ofRest := []*Event{{class: 0}}, []*Event{{class: 2}}
	now := time.Unix(1000, 0)
	if due := p.due(now, false); due != slow|quick|rest || p.limit(due) != 50 {
		t.Fatalf("at the start %b is due, with limit %d", due, p.limit(due))
	}
	p.read(slow|quick|rest, ofRest, false, now, now)
	if due := p.due(now, true); due != quick|rest {
		t.Errorf("%b comes along with a settle, want all but the slow class", due)
	}
	if due := p.due(now.Add(quickPoll), false); due != rest {
		t.Errorf("%b is due soon after an event of the rest", due)
	}
	if due := p.due(now.Add(100*time.Millisecond), false); due != quick|rest {
		t.Errorf("%b is due after the quick interval", due)
	}
	p.read(slow, ofSlow, false, now, now)
	if due := p.due(now.Add(4*time.Second), false); due&slow != 0 {
		t.Error("the slow class does not keep its interval while its events come")
	}
	if next := p.next(); next != now.Add(quickPoll) {
		t.Errorf("the next poll is due after %v", next.Sub(now))
	}
	if p.read(slow, ofSlow, true, now, now); !p.due(now, false).has(0) {
		t.Error("a backlog of the slow class waits")
	}
}

func TestPacer(t *testing.T) {
	p := newPacer(Config{}.WithDefaults())
	now := time.Unix(1000, 0)
	for _, want := range []int{200, 800, 2000, 2000} {
		p.read(p.limit, true, now, now)
		if p.limit != want || !p.due(now) {
			t.Errorf("under backlog: limit %d, due %v; want %d at once", p.limit, p.due(now), want)
		}
	}
	p.read(3, false, now, now)
	if !p.due(now.Add(quickPoll)) || p.due(now) {
		t.Errorf("after events the next poll is due at %v", p.next.Sub(now))
	}
	for range 20 {
		p.read(0, false, now, now)
	}
	if p.next.Sub(now) != quickPollMax || p.limit != 50 {
		t.Errorf("without events: next poll after %v, limit %d", p.next.Sub(now), p.limit)
	}
	now = now.Add(lively)
	if p.read(0, false, now, now); p.next.Sub(now) != 500*time.Millisecond {
		t.Errorf("idle: next poll after %v", p.next.Sub(now))
	}
	seed := newPacer(Config{Batch: 50, BatchMax: 50, Interval: time.Millisecond}.WithDefaults())
	if seed.read(50, true, now, now); seed.limit != 50 {
		t.Errorf("with the maximum at the batch size the limit grew to %d", seed.limit)
	}
	if seed.read(1, false, now, now); seed.next.Sub(now) != time.Millisecond {
		t.Errorf("polls are slower than the interval: %v", seed.next.Sub(now))
	}
}

// Sweeps take a small part of the time. A first read that walked over much that waits puts the first one off.
func TestSweepsFollowTheirCost(t *testing.T) {
	p, now := newPacer(Config{SweepInterval: 5 * time.Minute}.WithDefaults()), time.Now()
	due := func() time.Duration { return p.sweep.Sub(now).Round(time.Second) }
	p.took(10*time.Millisecond, false, now)
	if due() != time.Second {
		t.Errorf("the first sweep comes after %v, want a second", due())
	}
	p.took(time.Second, false, now)
	if due() != 200*time.Second {
		t.Errorf("after a read of a second it comes after %v, want 200 s", due())
	}
	p.took(time.Minute, true, now)
	if due() != 5*time.Minute {
		t.Errorf("after a sweep of a minute the next comes after %v, want the interval", due())
	}
	p.took(time.Millisecond, true, now)
	if due() != time.Second {
		t.Errorf("after a sweep of a millisecond the next comes after %v, want a second", due())
	}
}
