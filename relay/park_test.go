package relay_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"posthaste.dev/posthaste/relay"
)

// refusing makes Kafka refuse the events with these ids, each alone.
func refusing(ids ...int64) func(*relay.Event) error {
	return func(e *relay.Event) error {
		if slices.Contains(ids, e.ID) {
			return &relay.Failure{Class: relay.Refused, Err: errors.New("too large")}
		}
		return nil
	}
}

// A parked event keeps its key waiting whoever owns its lane, until an operator has it tried again; then the key comes
// out in order. Others do not notice.
func TestParkedEventIsRetried(t *testing.T) {
	r := newRig(t, func(r *rig) { r.kafka.fail = refusing(3) })
	r.write("t", "a", 2)
	r.write("t", "b", 3)
	r.start()
	r.untilSent(1, 2)
	r.until("3 is parked", func() bool { return r.parked() == "3: key t b, refused, 1" })
	r.must(r.end())

	r.start()
	r.write("t", "c", 1)
	r.write("t", "b", 1)
	r.untilSent(1, 2, 6)
	r.side(`update {{side}}.parked set request = 'retry'`)
	r.until("it is refused again", func() bool { return r.parked() == "3: key t b, refused, 2" })
	r.kafka.setFail(nil)
	r.side(`update {{side}}.parked set request = 'retry'`)
	r.untilSent(1, 2, 6, 3, 4, 5, 7)
	r.untilDrained()
	if list := r.parked(); list != "" {
		t.Errorf("parked: %s", list)
	}
}

// A discarded event is gone from the outbox, all of it is kept in the audit table, and its key flows on without it.
func TestParkedEventIsDiscarded(t *testing.T) {
	r := newRig(t, func(r *rig) { r.kafka.fail = refusing(1) })
	r.write("t", "a", 3)
	r.start()
	r.until("1 is parked", func() bool { return r.parked() != "" })
	r.side(`update {{side}}.parked set request = 'discard', requested_by = 'kim', request_reason = 'test data'`)
	r.untilSent(2, 3)
	r.untilDrained()
	var told string
	r.must(r.Pool.QueryRow(t.Context(), `select concat_ws(' ', actor, act, target ->> 'partition_key', events, reason)
		from `+r.SideSchema+`.audit`).Scan(&told))
	if told != "kim discarded a 1 test data" {
		t.Errorf("audit: %s", told)
	}
}

// By policy nothing waits with a refused event, or its aggregate does in all topics.
func TestPoliciesOfRefusedEvents(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.kafka.fail = refusing(1, 4)
		r.cfg.Topics = []relay.TopicRule{{Match: "skip*", OnRefused: relay.Skip}}
		r.cfg.OnRefused = relay.HoldAggregate
	})
	r.write("skipped", "a", 3) // 1 to 3
	r.write("t", "b", 2)       // 4 and 5
	r.start()
	r.untilSentInAnyOrder(2, 3)
	r.until("both are parked", func() bool {
		return r.parked() == "1: event skipped a, refused, 1; 4: aggregate t b, refused, 1"
	})
	r.write("u", "b", 1) // 6, of the aggregate
	r.write("u", "c", 1)
	r.untilSentInAnyOrder(2, 3, 7)
	r.kafka.setFail(nil)
	r.side(`update {{side}}.parked set request = 'retry' where id = 1`)
	r.untilSentInAnyOrder(1, 2, 3, 7)
	r.side(`update {{side}}.parked set request = 'retry'`)
	r.untilSentInAnyOrder(1, 2, 3, 4, 5, 6, 7)
	if last := r.kafka.sent()[4:]; !slices.Equal(last, []int64{4, 5, 6}) {
		t.Errorf("the aggregate came out as %v", last)
	}
	r.untilDrained()
}

// untilSentInAnyOrder waits until these and no others were sent.
func (r *rig) untilSentInAnyOrder(ids ...int64) {
	r.t.Helper()
	r.until(fmt.Sprintf("sent %v in any order", ids), func() bool {
		return slices.Equal(slices.Sorted(slices.Values(r.kafka.sent())), ids)
	})
}

// What an operator pauses waits, and comes out in order when it is resumed.
func TestPauses(t *testing.T) {
	for name, pause := range map[string]string{
		"topic": `'t', null`, "key": `'t', 'a'`, "key of all topics": `null, 'a'`, "all": `null, null`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil).start()
			r.write("t", "a", 1)
			r.untilSent(1)
			r.side(`insert into {{side}}.pause (outbox, topic, key, reason, paused_by) values ({{base}}, ` + pause +
				`, 'test', 'kim')`)
			seen := r.beats()
			r.until("the pause is known", func() bool { return r.beats() > seen+1 })
			r.write("t", "a", 100)
			want := []int64{1}
			if name != "all" {
				r.write("u", "b", 1)
				want = append(want, 102)
			}
			r.untilSent(want...)
			seen = r.beats()
			r.until("it lasts", func() bool { return r.beats() > seen+1 })
			r.untilSent(want...)
			r.side(`delete from {{side}}.pause`)
			r.untilDrained()
			if sent := r.kafka.sent(); len(sent) != len(want)+100 || !slices.IsSorted(sent[len(want):]) {
				t.Errorf("sent %v", sent)
			}
		})
	}
}

// beats counts those of the only member.
func (r *rig) beats() (n int64) {
	r.t.Helper()
	r.must(r.Pool.QueryRow(r.t.Context(), `select coalesce(max(beat), 0) from `+r.SideSchema+`.member`).Scan(&n))
	return n
}

// A topic that was found missing is looked at again at once when an operator says so.
func TestTopicIsLookedAtOnRequest(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.kafka.fail = func(e *relay.Event) error {
			return &relay.Failure{Class: relay.TopicUnusable, Err: errors.New("no such topic")}
		}
	})
	r.write("t", "a", 10)
	r.start()
	tries := func() int64 { return r.relay.Stats().Errors["topic"] }
	r.until("it was tried three times", func() bool { return tries() >= 3 }) // the next try is 4 s away
	r.kafka.setFail(nil)
	begun := time.Now()
	r.side(`insert into {{side}}.topic_look (outbox, topic) values ({{base}}, 't')`)
	r.untilDrained()
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Skip-locked relays park and obey as well.
func TestSkipLockedParksAndObeys(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.cfg.Claim = relay.ClaimSkipLocked
		r.kafka.fail = refusing(1, 4)
	})
	r.write("t", "a", 3)
	r.write("t", "b", 2)
	r.start()
	r.until("two are parked", func() bool {
		return r.parked() == "1: key t a, refused, 1; 4: key t b, refused, 1" && len(r.kafka.sent()) == 0
	})
	r.write("u", "c", 1)
	r.untilSent(6)
	r.kafka.setFail(nil)
	r.side(`insert into {{side}}.pause (outbox, topic, key, reason, paused_by) values ({{base}}, 't', 'b', 'x', 'kim')`)
	r.side(`update {{side}}.parked set request = case id when 1 then 'discard' else 'retry' end, requested_by = 'kim'`)
	r.untilSent(6, 2, 3)
	r.side(`delete from {{side}}.pause`)
	r.untilSent(6, 2, 3, 4, 5)
	r.untilDrained()
}

// What is parked and then published by a relay that had been given up, or deleted, keeps nobody waiting.
func TestGhostsAreReleased(t *testing.T) {
	r := newRig(t, func(r *rig) { r.kafka.fail = refusing(1, 3) })
	r.write("t", "a", 2)
	r.write("t", "b", 2)
	r.start()
	r.until("both are parked", func() bool { return r.parked() == "1: key t a, refused, 1; 3: key t b, refused, 1" })
	r.exec(`update outbox_event set published_at = now() where id = 1`)
	r.exec(`delete from outbox_event where id = 3`)
	r.untilSentInAnyOrder(2, 4)
	r.untilDrained()
	if list := r.parked(); list != "" {
		t.Errorf("parked: %s", list)
	}
}
