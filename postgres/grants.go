package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/internal/pgname"
)

// Roles names the roles that work with an outbox, unquoted.
type Roles struct {
	Writer   string // of the service that writes events
	Relay    string
	Operator string // of people and monitoring: they read, and may ask relays for what the commands can ask for
	Deletes  bool   // the relays settle by deleting (POSTHASTE_RELAY_SETTLE=delete)
}

// DefaultRoles returns the names that stand when nobody gives others.
func DefaultRoles() Roles {
	return Roles{Writer: "posthaste_writer", Relay: "posthaste_relay", Operator: "posthaste_operator"}
}

// GrantsSQL returns the statements that give each role its least rights on the outbox as it stands; Migrate comes
// first.
// It does not make the roles. What every role may do by PostgreSQL's defaults is not granted anew: advisory locks,
// hashtext and pg_locks need no right.
func GrantsSQL(ctx context.Context, conn *pgx.Conn, names Names, roles Roles) (string, error) {
	c, err := lookImpatiently(ctx, conn, names)
	if err != nil {
		return "", fmt.Errorf("print grants: %w", err)
	}
	id, ok := c.column("id")
	if !ok || c.register == nil {
		return "", Problem{ErrNotRegistered,
			fmt.Sprintf("%s is not registered in schema %s, or may not be looked at by role %s", names.Table,
				names.Schema, c.role),
			"run: " + names.command("migrate up")}
	}
	g := &grants{catalog: c}
	if g.sequence, _, err = c.findSequence(ctx, conn, id); err != nil {
		return "", fmt.Errorf("print grants: %w", err)
	}
	g.writer(pgname.Quote(roles.Writer))
	g.relay(pgname.Quote(roles.Relay), roles.Deletes)
	g.operator(pgname.Quote(roles.Operator))
	return strings.TrimPrefix(g.String(), "\n"), nil
}

type grants struct {
	*catalog
	sequence pgname.Table // zero: ids come from elsewhere
	strings.Builder
}

// say writes a comment. Names may hold line ends, and what follows one must not become a statement.
func (g *grants) say(format string, args ...any) {
	fmt.Fprintf(g, "\n-- %s\n", strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n-- "))
}

func (g *grants) grant(rights, on, role string) {
	fmt.Fprintf(g, "grant %s on %s to %s;\n", rights, on, role)
}

func (g *grants) side(table string) string { return pgname.Quote(g.names.Schema) + "." + table }

func (g *grants) use(schema, role string) { g.grant("usage", "schema "+pgname.Quote(schema), role) }

// writer: an identity column draws its ids without a right on the sequence, a default nextval('...') does not.
func (g *grants) writer(role string) {
	g.say("The service: it inserts events and reads none. Strict order needs no further right. Where it reads the id\n"+
		"back, as ORMs do, it also needs: grant select (%s) on %s to %s;",
		g.names.Columns.SQL("id"), g.names.Table, role)
	g.use(g.names.Table.Schema, role)
	g.grant("insert ("+strings.Join(g.written(), ", ")+")", g.names.Table.String(), role)
	if id, ok := g.column("id"); ok && id.identity == "" && g.sequence.Name != "" {
		if g.sequence.Schema != g.names.Table.Schema {
			g.use(g.sequence.Schema, role)
		}
		g.grant("usage", "sequence "+g.sequence.String(), role)
	}
}

// written lists the columns that a service may give: its own too, but neither ids nor marks.
func (g *grants) written() []string {
	var list []string
	for _, col := range g.columns {
		own := col.name == g.names.Columns.Name("id") || col.name == g.names.Columns.Name("published_at")
		if !own && col.generated == "" {
			list = append(list, sqlName(col.name))
		}
	}
	return list
}

// read lists the columns of an outbox; what a service has added is nobody's business.
func (g *grants) read() string {
	var list []string
	shared := g.names.Columns.Shared()
	for _, usual := range pgname.ColumnNames() {
		_, stands := g.column(usual)
		if _, shares := shared[usual]; stands && !shares {
			list = append(list, g.names.Columns.SQL(usual))
		}
	}
	return strings.Join(list, ", ")
}

func (g *grants) relay(role string, deletes bool) {
	why := "they mark events"
	if deletes {
		why = "they delete events, and lock them by the right to update"
	}
	g.say("The relays: they read events, %s, and keep account of one another in the side tables.", why)
	g.readers(role)
	g.grant("update ("+g.names.Columns.SQL("published_at")+")", g.names.Table.String(), role)
	if !deletes {
		g.say("They delete only a parked event that an operator discards; without this right that is refused.")
	}
	g.grant("delete", g.names.Table.String(), role)
	for _, t := range sideTables() {
		g.grant(strings.ToLower(strings.Join(sideRights[t], ", ")), g.side(t), role)
	}
}

func (g *grants) operator(role string) {
	g.say("Operators and monitoring: they read events and the side tables, may ask relays for another number of\n" +
		"lanes and for what is to become of parked events, and pause and resume. Every act goes into the audit\n" +
		"table, where they change nothing. For those who only look, leave out what is not select.")
	g.readers(role)
	for _, t := range sideTables() {
		g.grant("select", g.side(t), role)
	}
	g.grant("update (next_lanes, cluster_id)", g.side("outbox"), role)
	g.grant("update (request, requested_by, requested_at, request_reason)", g.side("parked"), role)
	g.grant("insert, delete", g.side("pause"), role)
	g.grant("insert, update (asked_at), delete", g.side("topic_look"), role)
	g.grant("insert", g.side("audit"), role)
}

// readers gives what whoever reads the outbox needs. The sequence tells up to which id no event can appear any more.
func (g *grants) readers(role string) {
	g.use(g.names.Table.Schema, role)
	if g.names.Schema != g.names.Table.Schema {
		g.use(g.names.Schema, role)
	}
	g.grant("select ("+g.read()+")", g.names.Table.String(), role)
	if g.sequence.Name != "" {
		if g.sequence.Schema != g.names.Table.Schema {
			g.use(g.sequence.Schema, role)
		}
		g.grant("select", "sequence "+g.sequence.String(), role)
	}
	if g.table.policies {
		fmt.Fprintf(g, "alter role %s bypassrls; -- row-level security is on and would hide events\n", role)
	}
}
