package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"posthaste.dev/posthaste/relay"
)

// queue puts the read into a pipeline; its rows will be in the result.
func (r *eventReader) queue(batch *pgx.Batch, q *relay.Read, claim bool, result *relay.Result) {
	sql, args := r.statement(q, claim)
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		return r.collect(rows, q, result)
	})
}

// collect keeps rows until their bytes pass the bound. The rest is read past without being kept: the connection
// can't be told to stop.
func (r *eventReader) collect(rows pgx.Rows, q *relay.Read, result *relay.Result) error {
	kept, seen := 0, 0
	for rows.Next() {
		seen++
		if kept > q.Bytes {
			continue
		}
		e, err := r.event(rows)
		if err != nil {
			rows.Close()
			return err
		}
		kept += e.Size()
		result.Events = append(result.Events, e)
	}
	result.More = seen == q.Limit || len(result.Events) < seen
	return rows.Err()
}

// The columns of readSQL, by position.
const (
	colID = iota
	colEventID
	colAggregateType
	colAggregateID
	colEventType
	colTopic
	colKey
	colPayload
	colCreatedAt
	colLane
	colHeaders
)

// event reads the current row. It reads the wire's bytes itself: Scan would cost more than all else in the relay.
func (r *eventReader) event(rows pgx.Rows) (*relay.Event, error) {
	raw, fields := rows.RawValues(), rows.FieldDescriptions()
	text := fields[colID].Format == pgtype.TextFormatCode
	id, err := readInt(raw[colID], text)
	if err != nil {
		return nil, fmt.Errorf("read outbox row: id: %w", err)
	}
	e := &relay.Event{
		ID:            id,
		AggregateType: r.share(raw[colAggregateType]),
		AggregateID:   string(raw[colAggregateID]),
		EventType:     r.share(raw[colEventType]),
		Topic:         r.share(raw[colTopic]),
	}
	e.Key = e.AggregateID
	if string(raw[colKey]) != e.AggregateID {
		e.Key = string(raw[colKey])
	}
	e.Payload = append([]byte(nil), raw[colPayload]...)
	if raw[colHeaders] != nil {
		e.Headers = append([]byte{}, raw[colHeaders]...)
	}
	lane, err := readInt(raw[colLane], fields[colLane].Format == pgtype.TextFormatCode)
	if err == nil {
		e.EventID, err = readUUID(raw[colEventID], fields[colEventID].Format == pgtype.TextFormatCode)
	}
	if err == nil && raw[colCreatedAt] != nil {
		e.CreatedAt, err = readTime(raw[colCreatedAt], fields[colCreatedAt].Format == pgtype.TextFormatCode)
	}
	if err != nil {
		return nil, fmt.Errorf("read outbox row %d: %w", id, err)
	}
	e.Lane = int(lane)
	return e, nil
}

// maxShared bounds the texts kept for sharing, maxSharedBytes the length of each.
const (
	maxShared      = 10_000
	maxSharedBytes = 256
)

// share returns the text as one string for all its rows.
func (r *eventReader) share(raw []byte) string {
	if s, ok := r.shared[string(raw)]; ok {
		return s
	}
	if len(raw) > maxSharedBytes {
		return string(raw)
	}
	if len(r.shared) >= maxShared {
		clear(r.shared)
	}
	s := string(raw)
	r.shared[s] = s
	return s
}

var errLength = errors.New("a value of unexpected length")

func readInt(raw []byte, text bool) (int64, error) {
	switch {
	case text:
		return strconv.ParseInt(string(raw), 10, 64)
	case len(raw) == 8:
		return int64(binary.BigEndian.Uint64(raw)), nil
	case len(raw) == 4:
		return int64(int32(binary.BigEndian.Uint32(raw))), nil
	}
	return 0, errLength
}

func readUUID(raw []byte, text bool) (uuid.UUID, error) {
	if text {
		return uuid.ParseBytes(raw)
	}
	return uuid.FromBytes(raw)
}

// postgresEpoch is where PostgreSQL's binary timestamps count from.
var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// The ends of what RFC 3339 can print; PostgreSQL's infinities and its far years become these. The first one is not the
// zero time, which stands for none.
var (
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// readTime reads a timestamptz; the session's DateStyle is ISO and its time zone UTC.
func readTime(raw []byte, text bool) (time.Time, error) {
	var t time.Time
	switch {
	case text:
		var parsed pgtype.Timestamptz
		if err := parsed.Scan(string(raw)); err != nil {
			return t, err
		}
		switch t = parsed.Time.UTC(); parsed.InfinityModifier {
		case pgtype.Infinity:
			t = lastTime
		case pgtype.NegativeInfinity:
			t = firstTime
		}
	case len(raw) != 8:
		return t, errLength
	default:
		// Beyond this the sum would overflow; it is far beyond year 9999 and year 1.
		const far = 1 << 60
		micros := min(max(int64(binary.BigEndian.Uint64(raw)), -far), far)
		t = time.UnixMicro(postgresEpoch.UnixMicro() + micros).UTC()
	}
	switch {
	case t.Before(firstTime):
		t = firstTime
	case t.After(lastTime):
		t = lastTime
	}
	return t, nil
}
