package relay

import (
	"context"
	"time"
)

// Store is the database as the relay needs it. Its methods may be called from several goroutines; what they return
// belongs to one goroutine at a time.
//
// An error that waiting can't mend is a *Permanent. Every other error means that the connection is given up and a new
// one will be asked for.
type Store interface {
	// Open connects for reading and settling and checks that the outbox is what this relay can work on.
	Open(ctx context.Context) (Session, error)
	// Join makes this process a member of the outbox, on a connection of its own.
	Join(ctx context.Context) (Membership, error)
	// Bind notes which Kafka cluster the outbox belongs to, when none was noted, and refuses any other with a
	// *Permanent. It is called before anything is published, and again when another cluster answers.
	Bind(ctx context.Context, cluster string) error
}

// Session is a database connection for reading and settling.
type Session interface {
	// Exchange settles events and reads the next ones; either part may be absent. When it fails, it is unknown which
	// of the events were settled: settling them again is harmless.
	Exchange(ctx context.Context, x Exchange) (Result, error)
	// Claim takes rows as the skip-locked mode does: they stay locked until the Claim is settled or released.
	Claim(ctx context.Context, r Read) (Claim, error)
	// Wakes tells whether writers can be told that this relay sleeps, so that they wake it.
	Wakes() bool
	// Horizons tells whether the ids come one by one from a sequence, so that a Horizon proves something.
	Horizons() bool
	// Orders reads what stands there now.
	Orders(ctx context.Context) (Orders, error)
	// Close gives the connection back. It does not wait for the server.
	Close()
}

// Exchange is one round trip to the database. Its parts happen in this order, in one transaction; only some of what is
// to be settled may be settled beside it, by another.
type Exchange struct {
	// Sleep is a word to writers that begin to write from now on.
	Sleep Sleep
	// Horizon asks for a look at the writers.
	Horizon bool
	// Park sets events aside, as far as Member owns their lanes and their rows are unpublished still.
	Park []Parking
	// Requests asks to carry out what operators want done with parked events, in the lanes that Member owns and the
	// topics that Wanted wants; up to this many of each kind.
	Requests int
	// Ghosts asks to look at so many parked events, the next ones each time, whether they are still to be published.
	// Those that are not are released.
	Ghosts int
	Member int // 0 has all lanes
	Wanted Choice
	Read   *Read
	// Settle comes last, so that the rows of the read are taken in while the server is at it, which takes most of the
	// time. The read sees what is to be settled unless it is told to leave it out, as everything in memory.
	Settle []Ref
}

// Sleep is what a relay says to writers.
type Sleep int

const (
	AsBefore Sleep = iota
	Doze           // wake me
	Rise           // wake me no more
)

// Parking is an event that Kafka refused, to be set aside.
type Parking struct {
	Ref
	Lane                                  int
	Topic, Key                            string
	AggregateType, AggregateID, EventType string
	Scope                                 ScopeKind // what waits with it: ScopeEvent, ScopeKey or ScopeAggregate
	Class                                 Class
	Reason                                string
	Attempts                              int
}

// Read says which unpublished events are wanted, in id order.
type Read struct {
	Above   int64   // ids greater than this
	UpTo    int64   // ids up to this
	Lanes   LaneSet // of these lanes; ignored by Claim
	Without []int64 // not these ids: they are in memory already
	Only    []Scope // of these scopes alone, unless empty
	Held    []Scope // of none of these, ScopePartition apart
	// Parked leaves out what waits with parked events of these kinds. Single parked events are looked for among ids up
	// to ParkedUpTo.
	Parked     []ScopeKind
	ParkedUpTo int64
	Wanted     []Choice // topics that each of these wants
	Limit      int      // at most this many rows
	Bytes      int      // rows are kept until their size passes this; the first is always kept
}

// TopicKey names a partition key within its topic, the unit of order.
type TopicKey struct{ Topic, Key string }

// Result is what an Exchange brought.
type Result struct {
	// Dozing answers Doze: the word is out. If not, it is to be tried again.
	Dozing bool
	// Settled counts the rows that the settle found unpublished.
	Settled int
	// Parked are the ids of the events that Park has set aside. A lane was lost, or the row is published or gone, where
	// one is missing.
	Parked []int64
	// Released are parked events that an operator has retried or discarded, and ghosts.
	Released []Released
	Events   []*Event
	// More says that there was no room for all: the limit or the bytes ran out.
	More    bool
	Horizon *Horizon
}

// Released is an event that is parked no more.
type Released struct {
	ID       int64
	Scope    Scope // what waited with it
	Attempts int
	Gone     bool // the event was discarded, or is published: what waited behind it flows on without it
}

// Horizon is a look at who may still bring ids into view: first the sequence, afterwards the writers.
type Horizon struct {
	// Last is the highest id that the sequence has given out, 0 before the first.
	Last int64
	// Writers are the transactions that hold the lock of a writer on the table; prepared ones among them.
	Writers []Writer
}

// Writer names a transaction that may have drawn ids.
type Writer struct {
	ID string
	// Prepared transactions may go by another name than before, as they do after a restart of the server.
	Prepared bool
}

// Claim is a set of locked rows.
type Claim interface {
	Events() []*Event
	// Now is the database clock when the rows were locked.
	Now() time.Time
	// Settle marks the events, parks others and commits. On error it is unknown whether that was done.
	Settle(ctx context.Context, events []Ref, park []Parking) error
	// Release rolls back; the rows are free for others.
	Release(ctx context.Context) error
}

// Membership is this process among the relays of an outbox.
type Membership interface {
	ID() int
	// Beat says that this member lives and how it fares, and returns what the others see. ErrEvicted ends the
	// membership.
	Beat(ctx context.Context, r Report) (View, error)
	// Act evicts the dead and takes free lanes, as far as both still are and the lanes are still those of the
	// generation; it returns the lanes taken.
	Act(ctx context.Context, dead []Peer, take int, generation int64) ([]int, error)
	// Release sets lanes free.
	Release(ctx context.Context, lanes []int) error
	// Resize gives the outbox another number of lanes, once all are free.
	Resize(ctx context.Context) error
	// Leave sets all lanes free and ends the membership.
	Leave(ctx context.Context) error
	// Wait blocks until the context ends, or returns early with an error when the connection breaks. It calls woken for
	// each word of a writer, as soon as the writer's events can be read.
	Wait(ctx context.Context, woken func()) error
	Close()
}

// Report is how a member fares, told with its beat to whoever looks at the outbox and can't ask the relay.
type Report struct {
	Published int64  // events that Kafka has acknowledged since the relay was made
	Held      int    // topics and keys that wait after a failure of their own
	Trouble   string // why it is not ready, "" while progress is possible
	Waiting   []Waiting
}

// Waiting is a scope that a member holds for a reason of its own that no side table shows: a topic that is missing or
// forbidden, a partition that does not answer. The member's row has it as JSON.
type Waiting struct {
	Topic     string    `json:"topic"`
	Partition *int32    `json:"partition,omitempty"` // nil: the whole topic
	Reason    string    `json:"reason"`
	Tries     int       `json:"tries"`
	Since     time.Time `json:"since"`    // by the member's clock
	NextTry   time.Time `json:"next_try"` // by the member's clock; zero: when the partition answers
}

// View is the outbox's members and lanes at one beat.
type View struct {
	Now        time.Time // the database clock
	Last       int64     // the sequence, as Horizon.Last; negative where it is not known
	Lanes      []Lane    // all, in order
	NextLanes  int       // the number of lanes wanted, 0 when it stands
	Generation int64     // goes up with every change of the number of lanes
	Peers      []Peer    // all members, this one too, in order of id
	Wanted     Choice    // the topics of this member's group; it stands while the group has members
	Listens    bool      // Wait hears of writers
	Pooled     bool      // a pooler stands between: the advisory lock proves nothing, the lease alone decides

	Orders
}

// Orders is what stands in the side tables of parked events and of operators' words.
type Orders struct {
	Parked     []ScopeKind // the kinds of scopes that parked events of the outbox hold
	ParkedUpTo int64       // the highest id that is parked alone (ScopeEvent); the lowest int64 when none is
	Requests   bool        // operators want something done with parked events
	Pauses     []Pause     // what operators have made wait, in order of Pause.ID
	Looks      []TopicLook // topics that operators want looked at again, asked for lately
}

// Pause is an operator's word that a scope waits: ScopeAll, ScopeTopic, ScopeKey or ScopeKeyOfAll.
type Pause struct {
	ID     int
	Scope  Scope
	Reason string
}

// TopicLook is an operator's word that a topic is to be looked at again now.
type TopicLook struct {
	Topic string
	Asked time.Time // by the database clock
}

// Lane is one shard of the key space.
type Lane struct {
	Owner int   // a member's id, 0 while free
	Epoch int64 // goes up with every change of owner and never restarts; nothing is decided by it yet
}

// Peer is a member as others see it.
type Peer struct {
	ID   int
	Beat int64
	// Gone says that its advisory lock is free: its process, or its connection, has ended.
	Gone bool
}

// Answer is the outcome of an event that Publish has left Unanswered.
type Answer struct {
	Event *Event
	Err   error // as Publish would have given it
}

// Publisher is Kafka as the relay needs it.
type Publisher interface {
	// Publish hands all events over, in order, and returns when the outcome of each is known: nil once the broker has
	// acknowledged with acks=all. After a failure of an event no later one of its (topic, key) in the same call
	// has been acknowledged. It is never called while an earlier call runs. What was handed over is waited for, however
	// long the brokers take, with one exception: when some partitions answer and others do not, the events of the
	// others fail as Unanswered. Their outcomes are still to come, by Answers; until then the caller hands over
	// nothing of these partitions.
	Publish(ctx context.Context, events []*Event) []error
	// Answers brings the outcomes of what was left Unanswered: all events of a partition at once, in the order in which
	// they were handed over, when the last of them is known.
	Answers() <-chan []Answer
	// Partition returns the partition that the key's events go to, negative where that is not known. It asks nobody,
	// and knows at least the partitions of what Publish has left Unanswered.
	Partition(topic, key string) int32
	// Renew says that an operator may have changed topics: before anything is handed over by a call of Publish that
	// begins afterwards, what is known of them is asked for anew.
	Renew()
	// Ping asks the cluster for an answer and returns its id, "" where it has none. Once something that was to be sent
	// has met another cluster than Bind has named, that one's id is returned.
	Ping(ctx context.Context) (cluster string, err error)
	// Bind names the cluster that may be sent to from now on; nothing may reach another.
	Bind(cluster string)
	// Close gives up what is in flight.
	Close()
}
