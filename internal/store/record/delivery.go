package record

import (
	"encoding/json"
	"fmt"

	"fleet/internal/fleet"
)

const (
	deliveryColumns = `id, webhook, seq, type, agent_name, task_id, body, status, tries, next_at, attempts, created_at`
	updateDelivery  = `UPDATE deliveries SET status = ?, tries = ?, next_at = ?, attempts = ? WHERE id = ? RETURNING 1 AS revision`
	countDeliveries = `SELECT webhook, status, count(*), min(created_at) FROM deliveries WHERE status <> 'delivered'`

	// SelectDeliveries is the beginning of a query for deliveries.
	SelectDeliveries = `SELECT ` + deliveryColumns + ` FROM deliveries WHERE `
	// NewestDeliveries is the end of a query for the newest deliveries of a webhook.
	NewestDeliveries = ` ORDER BY created_at DESC, seq DESC, id DESC LIMIT ? OFFSET ?`
	// DueDeliveries is the end of a query for the waiting deliveries of a webhook, the next due ones first. It repeats the condition
	// of the index literally, so that databases use the index.
	DueDeliveries = ` AND status = 'waiting' ORDER BY next_at, seq, id LIMIT ? OFFSET ?`
)

var insertDelivery = insertStatement("deliveries", deliveryColumns)

// Deliveries returns the matching deliveries, see fleet.ReadTx.
func (t ReadTx) Deliveries(f fleet.DeliveryFilter) ([]*fleet.Delivery, error) {
	if f.ID != "" {
		t.DB.Lock(lockDelivery, f.ID)
		return QueryAll(t.DB, scanDelivery, SelectDeliveries+`id = ?`, f.ID)
	}
	where, args := `webhook = ?`, []any{f.WebhookUID}
	add := func(condition string, arg any) { where, args = where+` AND `+condition, append(args, arg) }
	order := NewestDeliveries
	if f.Waiting {
		order = DueDeliveries
	}
	if f.Status != "" {
		add(`status = ?`, string(f.Status))
	}
	if !f.Since.IsZero() {
		add(`created_at >= ?`, f.Since)
	}
	if !f.Undue.IsZero() {
		add(`(tries > 0 OR next_at > ?)`, f.Undue)
	}
	return ReadLocked(t.DB, lockDelivery, func(d *fleet.Delivery) string { return d.ID }, func() ([]*fleet.Delivery, error) {
		return QueryAll(t.DB, scanDelivery, SelectDeliveries+where+order, append(args, int64(f.Limit), int64(f.Offset))...)
	})
}

// CountDeliveries counts deliveries, see fleet.ReadTx.
func (t ReadTx) CountDeliveries(webhook string) ([]fleet.DeliveryCount, error) {
	scan := func(row Scanner) (c fleet.DeliveryCount, err error) {
		return c, row.Scan(&c.WebhookUID, (*string)(&c.Status), &c.Number, (*TimeColumn)(&c.Oldest))
	}
	if webhook == "" {
		return QueryAll(t.DB, scan, countDeliveries+` GROUP BY webhook, status ORDER BY webhook, status`)
	}
	return QueryAll(t.DB, scan, countDeliveries+` AND webhook = ? GROUP BY webhook, status ORDER BY status`, webhook)
}

func (t Tx) insertDelivery(d *fleet.Delivery) error {
	if err := t.DB.CheckSpace(); err != nil {
		return err
	}
	attempts, err := json.Marshal(d.Attempts)
	if err != nil {
		return t.DB.Fail(err)
	}
	t.DB.Lock(lockDelivery, d.ID)
	return t.DB.Exec(func(err error) error { return fmt.Errorf("add delivery %s: %w", d.ID, err) }, insertDelivery,
		d.ID, d.WebhookUID, d.Seq, d.Type, d.AgentName, d.TaskID, string(d.Body), string(d.Status), int64(d.Tries), NullTime(d.NextAt), string(attempts), d.CreatedAt)
}

func (t Tx) updateDelivery(d *fleet.Delivery) error {
	attempts, err := json.Marshal(d.Attempts)
	if err != nil {
		return t.DB.Fail(err)
	}
	t.DB.Lock(lockDelivery, d.ID)
	return t.DB.Revise(new(int64), func(err error) error { return fmt.Errorf("write delivery %s: %w", d.ID, err) },
		updateDelivery, string(d.Status), int64(d.Tries), NullTime(d.NextAt), string(attempts), d.ID)
}

func scanDelivery(row Scanner) (*fleet.Delivery, error) {
	var d fleet.Delivery
	var body string
	err := row.Scan(&d.ID, &d.WebhookUID, &d.Seq, &d.Type, &d.AgentName, &d.TaskID, &body, (*string)(&d.Status), &d.Tries, (*TimeColumn)(&d.NextAt), jsonColumn{&d.Attempts}, (*TimeColumn)(&d.CreatedAt))
	d.Body = []byte(body)
	return &d, err
}
