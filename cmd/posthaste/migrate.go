package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"posthaste.dev/posthaste/cmd/posthaste/internal/settings"
	"posthaste.dev/posthaste/postgres"
)

var migrateGroups = []settings.Group{settings.GroupDatabase}

func newMigrate() *cobra.Command {
	var opts postgres.MigrateOptions
	var print, grants bool
	roles := postgres.DefaultRoles()
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create, adopt, check or remove the outbox table and the side tables",
		Long: `Create, adopt, check or remove the outbox table and the side tables.

The relay never changes the schema; this command alone does. With --print it shows the whole SQL that up runs on an
empty database, for psql or for a review. With --print-grants it looks at the outbox and shows the SQL that gives three
roles the least rights: writers of events, relays, and operators (status, events, number of lanes).

` + settings.SecretHelp(migrateGroups...),
		Example: `  posthaste migrate up
  posthaste migrate up --table '"Sales"."outbox-event"' --dry-run
  posthaste migrate --print | psql "$DATABASE_URL"
  posthaste migrate --print-grants --writer orders --relay posthaste --operator oncall`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return migrateItself(cmd, opts, print, grants, roles)
		},
	}
	settings.AddFlags(cmd.PersistentFlags(), migrateGroups...)
	cmd.Flags().BoolVar(&print, "print", false, "print the SQL and change nothing; needs no server")
	cmd.Flags().BoolVar(&grants, "print-grants", false, "print the SQL of the least rights and change nothing")
	cmd.Flags().StringVar(&roles.Writer, "writer", roles.Writer, "role of the service, for --print-grants")
	cmd.Flags().StringVar(&roles.Relay, "relay", roles.Relay, "role of the relays, for --print-grants")
	cmd.Flags().StringVar(&roles.Operator, "operator", roles.Operator,
		"role of people and monitoring, for --print-grants")
	cmd.Flags().BoolVar(&roles.Deletes, "settle-delete", false, "the relays settle by deleting, for --print-grants")
	addUpFlags(cmd, &opts)
	cmd.AddCommand(newMigrateUp(), newMigrateDown(), newMigrateStatus())
	return cmd
}

func addUpFlags(cmd *cobra.Command, opts *postgres.MigrateOptions) {
	cmd.Flags().IntVar(&opts.Lanes, "lanes", 0,
		fmt.Sprintf("lanes of a new outbox, a power of two up to 1024; bounds how many relays share it (default %d)",
			postgres.DefaultLanes))
	cmd.Flags().BoolVar(&opts.Headers, "headers", false, "add the optional column headers jsonb")
	cmd.Flags().Var(wakeUpFlag{&opts.WakeUp}, "wake-up", "let writers wake relays that sleep, by a trigger that costs "+
		"them next to nothing; --wake-up=false drops it; left out, it stays as it is")
	cmd.Flags().Lookup("wake-up").NoOptDefVal = "true"
}

// wakeUpFlag is a boolean that also knows not to have been given.
type wakeUpFlag struct{ *postgres.WakeUp }

func (f wakeUpFlag) Type() string   { return "" }
func (f wakeUpFlag) String() string { return "" }

func (f wakeUpFlag) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("want true or false")
	}
	*f.WakeUp = postgres.WakeUpOff
	if on {
		*f.WakeUp = postgres.WakeUpOn
	}
	return nil
}

func newMigrateUp() *cobra.Command {
	var opts postgres.MigrateOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Create what is missing",
		Long: `Create what is missing: the outbox table with its partial index, the side tables, the outbox's entry in
them.

An existing table is adopted: no column of it is changed, and its partial index is built concurrently. Running it
again, or many at once, is safe.

With --wake-up an event that comes after a pause is sent within milliseconds, not at the relay's next poll: a trigger
of the table notifies relays that sleep when the writer commits. It does so at no other time, and is refused where
transactions are prepared for two-phase commits (max_prepared_transactions).`,
		Example: `  posthaste migrate up
  posthaste migrate up --wake-up
  posthaste migrate up --lanes 128 --headers --dry-run`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runMigration(cmd, opts, postgres.Migrate) },
	}
	addUpFlags(cmd, &opts)
	addDryRun(cmd, &opts)
	return cmd
}

func newMigrateDown() *cobra.Command {
	var opts postgres.MigrateOptions
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove the outbox",
		Long: `Remove the outbox: its entry in the side tables, the table if migrate made it, and with the last outbox
the side tables. It refuses while events are unpublished or relays run, and never drops an adopted table.`,
		Example: `  posthaste migrate down --dry-run`,
		Args:    usage(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runMigration(cmd, opts, postgres.MigrateDown) },
	}
	addDryRun(cmd, &opts)
	return cmd
}

func addDryRun(cmd *cobra.Command, opts *postgres.MigrateOptions) {
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "say what would be done, with the SQL, and change nothing")
}

func newMigrateStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what exists and what is missing",
		Long: `Show what exists and what is missing: everything that differs from the table that migrate makes, each
with what it means and with the SQL or command that changes it.

  an error    a relay does not start; these come on standard error
  works, but  a relay works, though not at its best
  note        good to know; nothing needs to be done

Exit status 3 when a relay of the connected role would refuse to start.`,
		Example: `  posthaste migrate status
  posthaste migrate status --table sales.outbox`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
				outbox, all, err := postgres.Differences(ctx, conn, names)
				if err != nil {
					return err
				}
				var b strings.Builder
				printOutbox(&b, outbox)
				printDifferences(&b, all, postgres.WorksBut, postgres.Note)
				if _, err := io.WriteString(cmd.OutOrStdout(), b.String()); err != nil {
					return err
				}
				return postgres.Refusals(names, all)
			})
		},
	}
}

// migrateItself is the command without another word behind it: it prints. A flag that would do nothing is refused,
// since whoever gives it believes that it does.
func migrateItself(cmd *cobra.Command, opts postgres.MigrateOptions, print, grants bool, roles postgres.Roles) error {
	for _, f := range []struct {
		name, with string
		met        bool
	}{
		{"lanes", "--print, or up", print}, {"headers", "--print, or up", print},
		{"wake-up", "--print, or up", print}, {"writer", "--print-grants", grants},
		{"relay", "--print-grants", grants}, {"operator", "--print-grants", grants},
		{"settle-delete", "--print-grants", grants},
	} {
		if cmd.Flags().Changed(f.name) && !f.met {
			return usageError{fmt.Errorf("--%s does nothing by itself: it goes with %s", f.name, f.with)}
		}
	}
	switch {
	case print && grants:
		return usageError{errors.New("--print and --print-grants are two things: give one of them")}
	case grants:
		return printGrants(cmd, roles)
	case print:
		return printMigration(cmd, opts)
	}
	return cmd.Help()
}

func printGrants(cmd *cobra.Command, roles postgres.Roles) error {
	return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
		sql, err := postgres.GrantsSQL(ctx, conn, names, roles)
		if err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), sql)
		return err
	})
}

func printMigration(cmd *cobra.Command, opts postgres.MigrateOptions) error {
	cfg, err := loadSettings(cmd, migrateGroups...)
	if err != nil {
		return err
	}
	sql, err := postgres.MigrateSQL(cfg.Database.Names, opts)
	if err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), sql)
	return err
}

func withDatabase(cmd *cobra.Command, do func(context.Context, *pgx.Conn, postgres.Names) error) error {
	cfg, err := loadSettings(cmd, migrateGroups...)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	conn, err := connect(ctx, cfg.Database.Conn)
	if err != nil {
		return err
	}
	defer disconnect(ctx, conn)
	return do(ctx, conn, cfg.Database.Names)
}

type migration func(context.Context, *pgx.Conn, postgres.Names, postgres.MigrateOptions) (*postgres.Migration, error)

func runMigration(cmd *cobra.Command, opts postgres.MigrateOptions, migrate migration) error {
	out := cmd.OutOrStdout()
	opts.Before = func(s postgres.Step) { fmt.Fprintln(out, s.What) }
	return withDatabase(cmd, func(ctx context.Context, conn *pgx.Conn, names postgres.Names) error {
		m, err := migrate(ctx, conn, names, opts)
		for _, note := range m.Notes {
			fmt.Fprintln(out, "note:", note)
		}
		printDifferences(out, m.Differences, postgres.WorksBut)
		if n := count(m.Differences, postgres.Note); n > 0 {
			fmt.Fprintf(out, "%-12s %s, which posthaste migrate status lists\n", postgres.Note,
				plural(n, "smaller difference"))
		}
		if err != nil {
			return err
		}
		switch {
		case opts.DryRun && len(m.Steps) > 0:
			fmt.Fprintln(out, "dry run: nothing was changed; it would")
			for _, s := range m.Steps {
				fmt.Fprintf(out, "\n-- %s\n%s\n", s.What, s.SQL)
			}
		case len(m.Steps) == 0:
			fmt.Fprintln(out, "nothing to do")
		default:
			fmt.Fprintln(out, "done")
		}
		return nil
	})
}

func printOutbox(w io.Writer, o *postgres.Outbox) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("database", "%s, PostgreSQL %s", o.Server.Database, serverVersion(o.Server))
	line("outbox", "%s", o.Names.Table)
	switch {
	case o.Version == 0:
		line("side tables", "none in schema %q, this program knows version %d", o.Names.Schema, postgres.SchemaVersion)
	default:
		line("side tables", "version %d in schema %q, this program knows up to %d",
			o.Version, o.Names.Schema, postgres.SchemaVersion)
	}
	if o.ID != 0 {
		origin := "adopted"
		if o.Created {
			origin = "made by migrate"
		}
		line("registered", "%s, %d lanes", origin, o.Lanes)
	}
	if o.HasHeaders {
		line("headers", "column headers is there")
	}
	if mapping := o.Names.Columns.String(); mapping != "" {
		line("columns", "%s", mapping)
	}
}

func count(all []postgres.Difference, severity postgres.Severity) (n int) {
	for _, d := range all {
		if d.Severity == severity {
			n++
		}
	}
	return n
}

// printDifferences lists the differences of these severities, each with its way out on a line of its own, as errors
// have it. What refuses comes as an error.
func printDifferences(w io.Writer, all []postgres.Difference, shown ...postgres.Severity) {
	for _, d := range all {
		if slices.Contains(shown, d.Severity) {
			fmt.Fprintf(w, "%-12s %s\n  %s\n", d.Severity, d.Cause, d.Fix)
		}
	}
}
