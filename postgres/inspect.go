package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// The versions of the side tables. A relay works with the newest it knows and the one before, so that in a rolling
// upgrade relays go first and the migration follows; it refuses a newer one, whose rules it can't know.
const (
	SchemaVersion    = 1
	MinSchemaVersion = 1
)

// A Right is a privilege on the outbox table that a caller needs beside SELECT.
type Right string

// The rights that the ways to settle need: marking updates, deleting deletes, and row locks count as updates.
const (
	RightUpdate Right = "UPDATE"
	RightDelete Right = "DELETE"
	// RightRead asks for none but that to read, on the side tables too: what looks and changes nothing needs it alone.
	RightRead Right = "SELECT"
)

// Outbox is what the database tells about one outbox.
type Outbox struct {
	Names      Names
	Version    int   // of the side tables, 0: none
	ID         int32 // its row in the side tables, 0: not registered
	BaseID     int32 // the row without a group, which is ID unless a group is meant
	LockClass  int32 // first half of its members' advisory lock keys
	Created    bool  // migrate made the table, it was not adopted
	Lanes      int
	NextLanes  int      // the number that members change to, 0: no change under way
	Generation int64    // goes up with every change of Lanes
	Groups     []string // the groups that topics of the outbox are in
	Cluster    string   // id of the Kafka cluster that it belongs to, "": none has been met yet

	OID     uint32 // of the table
	WakesUp bool   // the trigger that wakes relays is on the table

	MayDelete  bool     // the role may delete events, as discarding one needs
	HasHeaders bool     // the optional column headers jsonb is there
	ShortIDs   bool     // ids are integers, not bigints
	Lacks      []string // other columns that it does without; the headers of these names are left out of the records

	// Sequence is where ids come from, qualified and quoted, "" if they come from elsewhere. SequenceTrusted tells
	// whether its last value bounds every id that is yet to come; if not, nothing may be concluded from it (no H).
	Sequence        string
	SequenceTrusted bool

	Server   Server
	Warnings []Problem // what lets the relay work, though not at its best
	Notes    []Problem // other differences from the table that migrate makes
}

// sameMake tells whether statements that were made for one are right for the other too.
func (o *Outbox) sameMake(other *Outbox) bool {
	return o.ID == other.ID && o.BaseID == other.BaseID && o.LockClass == other.LockClass &&
		o.OID == other.OID && o.WakesUp == other.WakesUp &&
		o.HasHeaders == other.HasHeaders && o.ShortIDs == other.ShortIDs && slices.Equal(o.Lacks, other.Lacks) &&
		o.Sequence == other.Sequence && o.SequenceTrusted == other.SequenceTrusted
}

// Server is the server that answered.
type Server struct {
	Version  int       // as in server_version_num: 150004
	Started  time.Time // pg_postmaster_start_time(): no two servers have the same
	Database string    // current_database()
}

// Inspect looks at an outbox as the connected role sees it. It changes nothing and takes only catalog locks, besides
// reading the highest id through the primary key.
//
// The Outbox is never nil: with a *SchemaError it holds what could be learnt. Other errors are those of the
// connection, or a Problem of kind ErrBusy while the table is locked. Without rights, RightUpdate is meant. With any of
// the problems a relay must not run; warnings stand in the Outbox.
func Inspect(ctx context.Context, conn *pgx.Conn, names Names, rights ...Right) (*Outbox, error) {
	outbox, c := &Outbox{Names: names}, (*catalog)(nil)
	err := impatiently(ctx, conn, names, func() (err error) {
		if c, err = look(ctx, conn, names); err != nil {
			return err
		}
		outbox = c.outbox()
		return outbox.judgeSequence(ctx, conn, c)
	})
	if err != nil {
		return outbox, err
	}
	return outbox, c.judge(rights)
}

// Check is Inspect without facts and warnings, for whoever only needs to know whether the outbox is sound: a dozen
// catalog queries, no access to the table itself.
func Check(ctx context.Context, conn *pgx.Conn, names Names, rights ...Right) error {
	c, err := lookImpatiently(ctx, conn, names)
	if err != nil {
		return err
	}
	return c.judge(rights)
}
