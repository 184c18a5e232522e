package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"posthaste.dev/posthaste/relay"
)

const (
	bindSQL    = `update {{schema}}.outbox set cluster_id = $2 where id = $1 and cluster_id is null`
	clusterSQL = `select coalesce(cluster_id, '') from {{schema}}.outbox where id = $1`
)

// Bind notes which Kafka cluster the outbox belongs to, if none was noted, and refuses any other by a *relay.Permanent:
// a relay that has one system's database and another's brokers would settle events that their readers never get. Open
// and Join refuse from then on as well, should somebody give the outbox to another cluster meanwhile. A cluster without
// an id is not refused, since it can't be told from others.
func (s *Store) Bind(ctx context.Context, cluster string) error {
	if cluster == "" {
		s.cfg.Logger.Warn("the Kafka cluster tells no id, so nobody would notice if another one answered in its place")
		return nil
	}
	s.bound.Store(&cluster)
	conn, outbox, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer closeNow(conn)
	if outbox.Cluster == "" {
		batch := &pgx.Batch{}
		batch.Queue(outbox.Names.sql(bindSQL), outbox.BaseID, cluster)
		batch.Queue(outbox.Names.sql(clusterSQL), outbox.BaseID).QueryRow(func(row pgx.Row) error {
			return row.Scan(&outbox.Cluster) // another relay's, when that was faster
		})
		if err := conn.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("note the Kafka cluster of outbox %s: %w", outbox.Names.Table, err)
		}
	}
	return s.checkCluster(outbox)
}

// cluster is the one that Bind was told of, "" before.
func (s *Store) cluster() string {
	if bound := s.bound.Load(); bound != nil {
		return *bound
	}
	return ""
}

func (s *Store) checkCluster(o *Outbox) error {
	if err := o.CheckCluster(s.cluster()); err != nil {
		return &relay.Permanent{Err: err}
	}
	return nil
}

// CheckCluster returns a Problem of kind ErrCluster if the outbox belongs to another Kafka cluster than the one with
// this id. Without an id on either side there is nothing to compare.
func (o *Outbox) CheckCluster(found string) error {
	if found == "" || o.Cluster == "" || found == o.Cluster {
		return nil
	}
	names := o.Names
	names.Group = ""
	return Problem{ErrCluster,
		fmt.Sprintf("outbox %s belongs to Kafka cluster %s, but the one that answers is %s",
			names.Table, o.Cluster, found),
		"check KAFKA_BROKERS and DATABASE_URL; if the outbox is to go on in this cluster, stop its relays and run: " +
			names.command("cluster accept "+shellQuote(found))}
}

// Cluster returns the id of the Kafka cluster that the outbox belongs to, "" while no relay has met one.
func (op *Operator) Cluster() string { return op.outbox.Cluster }

// CheckCluster is that of Outbox.
func (op *Operator) CheckCluster(found string) error { return op.outbox.CheckCluster(found) }

const acceptClusterSQL = `update {{schema}}.outbox set cluster_id = $2 where name = $1 and topic_group = ''`

// AcceptCluster gives the outbox to another Kafka cluster, whose id that is, and returns the id that stood before, ""
// for none. It refuses with ErrMembers while relays of the outbox run: they would go on in the old cluster. (Relays in
// claim mode skip-locked are no members; stop them as well.) What was published so far is not published again.
func (op *Operator) AcceptCluster(ctx context.Context, cluster string, by By) (before string, err error) {
	if cluster == "" {
		return "", errors.New("accept cluster: no id")
	}
	if err := by.check(false); err != nil {
		return "", fmt.Errorf("accept cluster: %w", err)
	}
	table := op.outbox.Names.Table.String()
	err = op.acting(ctx, "accept cluster", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, op.sql(lockOutboxSQL), table); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, op.sql(clusterSQL), op.outbox.BaseID).Scan(&before); err != nil {
			return err
		}
		if before == cluster {
			return nil
		}
		if err := refuseMembers(ctx, tx, op.outbox.Names); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, op.sql(acceptClusterSQL), table, cluster); err != nil {
			return err
		}
		return op.record(ctx, tx, by, "accept-cluster", map[string]string{"from": before, "to": cluster}, nil)
	})
	return before, err
}
