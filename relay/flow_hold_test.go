package relay

import (
	"testing"
	"time"
)

// drained is a flow that has read everything up to id 100, with these events in flight.
func drained(t *testing.T, in ...*Event) *flow {
	t.Helper()
	f := ownerOfAll(limits{batch: 50, batchMax: 100, memory: 1 << 24})
	f.parked = nil
	f.observe(Horizon{Last: 100})
	f.arrived(f.nextRead(100, 1, false), in, false)
	f.nextChunk()
	if f.floor(1) != 100 || len(f.sending) != len(in) {
		t.Fatalf("floor %d, %d in flight", f.floor(1), len(f.sending))
	}
	return f
}

func refusal1() []error { return []error{&Failure{Refused, errSim}} }

// While nothing is held, a read leaves nothing out and looks for nothing that is parked.
func TestHotPathPaysNothing(t *testing.T) {
	f := drained(t)
	if r := f.nextRead(100, 1, false); len(r.Held)+len(r.Only)+len(r.Parked) > 0 {
		t.Errorf("the read has %+v", r.Read)
	}
}

// An event with a lower id that came into view after a refused one does not wait behind it: once that is parked, it is
// read, although the floor has passed it.
func TestEarlierEventsDoNotWaitBehindAParkedOne(t *testing.T) {
	f := drained(t, &Event{ID: 50, Topic: "t", Key: "k"})
	f.published(refusal1(), time.Time{})
	f.reach[0].floor = 30 // as if a writer had been open
	f.arrived(f.nextRead(100, 1, false), []*Event{{ID: 40, Topic: "t", Key: "k"}}, false)
	if f.floor(1) != 100 || len(f.queue) != 0 {
		t.Fatalf("floor %d, %d queued; want the event to wait until the other is parked", f.floor(1), len(f.queue))
	}
	if parks := f.nextPark(); len(parks) != 1 || parks[0].ID != 50 || parks[0].Scope != ScopeKey {
		t.Fatalf("parks %+v", parks)
	}
	f.wereParked([]int64{50})
	r := f.nextCatchUp(50)
	if r == nil || r.Above >= 40 {
		t.Fatalf("%+v: the event is not read", r)
	}
	f.arrived(r, []*Event{{ID: 40, Topic: "t", Key: "k"}}, false)
	if len(f.queue) != 1 || f.nextCatchUp(50) != nil {
		t.Errorf("%d queued, want the event, and no further read of its key", len(f.queue))
	}
}

// Nothing else is read again when an event is parked and nothing waited behind it.
func TestParkingAloneReadsNothingAgain(t *testing.T) {
	f := drained(t, &Event{ID: 50, Topic: "t", Key: "k"})
	f.published(refusal1(), time.Time{})
	f.nextPark()
	f.wereParked([]int64{50})
	if f.nextCatchUp(50) != nil || !f.failing.empty() || f.bytes != 0 || len(f.known) != 0 {
		t.Errorf("%d holds, %d bytes, %d known", f.failing.len(), f.bytes, len(f.known))
	}
	if r := f.nextRead(100, 1, false); len(r.Parked) != 1 || r.Parked[0] != ScopeKey || r.Above != 100 {
		t.Errorf("the next read is %+v", r.Read)
	}
}

// What could not be parked, its lane being lost or its row published, makes nothing wait for ever.
func TestUnparkedEventsReleaseTheirKey(t *testing.T) {
	f := drained(t, &Event{ID: 50, Topic: "t", Key: "k"})
	f.published(refusal1(), time.Time{})
	f.nextPark()
	f.wereParked(nil)
	if r := f.nextCatchUp(50); r == nil || r.Above >= 50 || f.failing.len() != 0 {
		t.Errorf("%+v, %d holds", r, f.failing.len())
	}
}

// A released event remembers how often it was refused.
func TestAttemptsAreCounted(t *testing.T) {
	f := drained(t)
	scope := Scope{Kind: ScopeKey, Topic: "t", Key: "k"}
	f.release([]Released{{ID: 50, Scope: scope, Attempts: 3}})
	f.arrived(f.nextCatchUp(50), []*Event{{ID: 50, Topic: "t", Key: "k"}}, false)
	f.nextChunk()
	f.published(refusal1(), time.Time{})
	if p := f.nextPark(); p[0].Attempts != 4 {
		t.Errorf("attempts %d, want 4", p[0].Attempts)
	}
}

// Events of a partition that does not answer wait for it, those of others flow; with the answers they go on in order.
func TestOnePartitionWaitsAlone(t *testing.T) {
	f := newFlow(limits{batch: 50, batchMax: 100, memory: 1 << 24}, false, classes{others: HoldKey}, simPartition)
	f.setLanes(NewLaneSet(1, 0))
	f.observe(Horizon{Last: 100})
	event := func(id int64, key string) *Event { return &Event{ID: id, Topic: "t", Key: key} }
	f.arrived(f.nextRead(100, 1, false), []*Event{event(1, "k1"), event(2, "k2")}, false)
	sent := f.nextChunk()
	f.arrived(f.nextRead(100, 1, false), []*Event{event(3, "k1"), event(4, "k2")}, false)
	out := f.published([]error{&Failure{Unanswered, errSim}, nil}, time.Time{})
	if len(out.held) != 1 || len(f.queue) != 1 || f.queue[0].ID != 4 || f.idle() {
		t.Fatalf("%+v, queue %v", out, f.queue)
	}
	f.arrived(f.nextRead(100, 1, false), []*Event{event(5, "k1"), event(6, "k2")}, false)
	if n := len(f.queue); n != 2 {
		t.Fatalf("%d in the queue, want those of the healthy partition", n)
	}
	f.answered([]Answer{{sent[0], errSim}}, time.Time{})
	if f.queue[0].ID != 1 || f.failing.len() != 0 {
		t.Fatalf("the queue begins with %d", f.queue[0].ID)
	}
	r := f.nextCatchUp(50)
	if r == nil || r.Above >= 3 || len(r.Only) != 1 || r.Only[0].Kind != ScopeTopic {
		t.Errorf("the catch-up is %+v", r)
	}
}
