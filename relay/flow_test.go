package relay

import (
	"fmt"
	"testing"
	"time"
)

func events(from, n, payload int) []*Event {
	var all []*Event
	for i := range n {
		all = append(all,
			&Event{ID: int64(from + i), Topic: "t", Key: fmt.Sprint("k", i), Payload: make([]byte, payload)})
	}
	return all
}

func ownerOfAll(l limits) *flow {
	f := newFlow(l, false, classes{others: HoldKey}, nil)
	f.setLanes(NewLaneSet(1, 0))
	return f
}

// Memory is bounded by bytes, whatever the events' size: the limit of a read follows it.
func TestReadsFollowTheSizeOfEvents(t *testing.T) {
	f := ownerOfAll(limits{batch: 50, batchMax: 2000, memory: 1 << 20})
	r := f.nextRead(2000, 1, false)
	if r.Limit != 2000 || r.Bytes != 1<<20 {
		t.Fatalf("the first read asks for %d rows and %d bytes", r.Limit, r.Bytes)
	}
	f.arrived(r, events(1, 20, 100_000)[:11], true) // as the store cuts it: until the bytes pass the bound
	if r := f.nextRead(2000, 1, false); r != nil {
		t.Errorf("reads on with %d bytes in memory", f.bytes)
	}
	f.nextChunk()
	f.published(make([]error, len(f.sending)), time.Time{})
	f.nextSettle()
	f.settled()
	if f.bytes != 0 || len(f.known) != 0 {
		t.Errorf("%d bytes and %d ids are left of nothing", f.bytes, len(f.known))
	}
	if r := f.nextRead(2000, 1, false); r.Limit > 20 {
		t.Errorf("after rows of 100 kB the next read asks for %d", r.Limit)
	}
}

// While nothing can appear below what was seen, a read starts where the last one ended and leaves nothing out by id.
func TestDrainLeavesNothingOut(t *testing.T) {
	f := ownerOfAll(limits{batch: 50, batchMax: 100, memory: 1 << 24})
	f.observe(Horizon{Last: 1_000_000})
	f.arrived(f.nextRead(100, 1, false), events(1, 100, 10), true)
	f.nextChunk()
	r := f.nextRead(100, 1, false)
	if r.Above != 100 || len(r.Without) != 0 {
		t.Errorf("the next read starts above %d and leaves %d ids out; want 100 and none", r.Above, len(r.Without))
	}
}

// A writer that is open keeps the floor below its ids, and rows in memory are left out by id.
func TestOpenWriterHoldsTheFloor(t *testing.T) {
	f := ownerOfAll(limits{batch: 50, batchMax: 100, memory: 1 << 24})
	f.observe(Horizon{Last: 10})
	f.observe(Horizon{Last: 200, Writers: []Writer{{ID: "a"}}})
	f.arrived(f.nextRead(100, 1, false), events(1, 100, 10), true)
	if r := f.nextRead(200, 1, false); r.Above != 10 || len(r.Without) != 90 {
		t.Errorf("the next read starts above %d and leaves %d ids out; want 10 and the 90 behind it", r.Above,
			len(r.Without))
	}
}

func TestSweepCounts(t *testing.T) {
	f := ownerOfAll(limits{batch: 50, batchMax: 100, memory: 1 << 24})
	f.observe(Horizon{Last: 1000})
	f.arrived(f.nextRead(100, 1, false), nil, false)
	if f.floor(1) != 1000 {
		t.Fatalf("floor is %d, want 1,000", f.floor(1))
	}
	f.arrived(f.nextRead(100, 1, true), events(5, 2, 10), false)
	if f.sweepFound != 2 || len(f.queue) != 2 {
		t.Errorf("the sweep found %d and queued %d; want 2", f.sweepFound, len(f.queue))
	}
}

// An event that was not sent, since an earlier one of its key failed, is no outage: nothing pauses for it.
func TestUnsentIsNoOutage(t *testing.T) {
	f := ownerOfAll(limits{batch: 50, batchMax: 100, memory: 1 << 24})
	f.arrived(f.nextRead(100, 1, false), events(1, 3, 10), false)
	for _, e := range f.nextChunk()[:2] {
		e.Key = "k"
	}
	out := f.published([]error{&Failure{Refused, errSim}, &Failure{Unsent, errSim}, nil}, time.Time{})
	if out.outage != nil || len(out.refused) != 1 || out.acked != 1 || len(f.queue) != 0 {
		t.Errorf("%+v, %d in the queue; want one refused, one acknowledged, no outage", out, len(f.queue))
	}
	f.arrived(f.nextRead(100, 1, false), events(10, 2, 10), false)
	f.nextChunk()
	out = f.published([]error{&Failure{Unsent, errSim}, nil}, time.Time{})
	if out.outage != nil || len(out.held) != 0 || len(f.queue) != 1 {
		t.Errorf("%+v, %d in the queue; want the event that was not sent in the queue, and nothing else", out,
			len(f.queue))
	}
}

// A read sees the rows that are settled after it in the same exchange, so it must leave them out.
func TestReadLeavesOutWhatIsBeingSettled(t *testing.T) {
	f := ownerOfAll(limits{batch: 50, batchMax: 100, memory: 1 << 24})
	f.arrived(f.nextRead(100, 1, false), events(1, 3, 10), false)
	f.nextChunk()
	f.published(make([]error, 3), time.Time{})
	r := f.nextRead(100, 1, false)
	settles := f.nextSettle()
	if len(settles) != 3 || len(r.Without) != 3 || r.Above >= 1 {
		t.Errorf("%d events are settled by an exchange whose read starts above %d and leaves %d ids out", len(settles),
			r.Above, len(r.Without))
	}
}
