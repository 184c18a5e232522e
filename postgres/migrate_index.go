package postgres

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"posthaste.dev/posthaste/internal/pgname"
)

// indexBase is the usual name of the partial index: the seed's, with the name of the table in it. Cut to leave room
// for a number, since PostgreSQL keeps 63 bytes.
func (c *catalog) indexBase() string {
	const most = 60
	middle := c.names.Table.Name
	for len("ix_")+len(middle)+len("_unpublished") > most {
		_, size := utf8.DecodeLastRuneInString(middle)
		middle = middle[:len(middle)-size]
	}
	return "ix_" + middle + "_unpublished"
}

// freeIndexName returns the usual name, or the first one with a number that nothing in the schema has.
func (c *catalog) freeIndexName() string {
	base := c.indexBase()
	name := base
	for n := 2; slices.Contains(c.taken, name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return name
}

func createIndex(verb, name string, names Names) string {
	return verb + " " + pgname.Quote(name) +
		names.sql("\n    on {{table}} ({{id}})\n    where {{published_at}} is null")
}

// planIndex compares what the indexes are, never what they are called. An invalid one that would be ours if it were
// valid is what an interrupted build left behind (..._ccnew among them): it serves nobody and slows every write, so it
// goes. A valid one is somebody's, whatever its name: it stays, and ours gets a name that is free.
func (c *catalog) planIndex(p *plan) error {
	have := c.hasIndex()
	for _, x := range c.indexes {
		switch {
		case x.valid && x.name.Name == c.indexBase() && !c.isOurs(x):
			p.note("index %s has the usual name and is another one; it stays: %s", x.name, x.definedText)
		case x.valid:
		case c.isOurs(x) && x.beingBuilt == 0 && c.table.kind == "r":
			p.adopted = append(p.adopted, Step{"drop invalid index " + x.name.String(),
				fmt.Sprintf("drop index concurrently %s", x.name)})
			c.taken = slices.DeleteFunc(c.taken, func(name string) bool { return name == x.name.Name })
		case x.beingBuilt == 0 && !c.isOurs(x):
			p.note("index %[1]s is invalid; rebuild it by: reindex index concurrently %[1]s, or drop it", x.name)
		}
	}
	switch building := c.building(); {
	case have && len(p.adopted) == 0:
		return nil
	case building != 0:
		p.busy = Problem{ErrBusy, fmt.Sprintf("process %d is building an index on %s", building, c.names.Table),
			"run it again when that has ended"}
		return nil
	case !c.table.owned:
		return Problem{ErrRights,
			fmt.Sprintf("role %s does not own %s, and its partial index has to be built", c.role, c.names.Table),
			"run it as the owner"}
	case have:
		return nil
	case c.table.kind == "p":
		c.planPartitions(p)
		return nil
	}
	p.adopted = append(p.adopted,
		Step{"build partial index on " + c.names.Table.String() + ", without blocking writers",
			createIndex("create index concurrently", c.freeIndexName(), c.names)})
	return nil
}

func (p *plan) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// building returns the backend that builds an index on the table now, or 0.
func (c *catalog) building() int32 {
	for _, x := range c.indexes {
		if x.beingBuilt != 0 {
			return x.beingBuilt
		}
	}
	return 0
}
