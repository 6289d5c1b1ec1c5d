package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Delivery is one event, or one test, for one webhook. It is sent until the receiver has accepted it, wants no more requests, or
// too many attempts have failed, always with the same ID. A test is sent only once.
type Delivery struct {
	ID         string
	WebhookUID string
	Seq        int64  // of the event; 0 if it is a test
	Type       string // of the event, or DeliveryTest
	AgentName  string
	TaskID     string
	Body       []byte // of the requests
	Status     DeliveryStatus
	Tries      int               // failed attempts since the delivery was created or was requested again
	NextAt     time.Time         // when it is sent next; zero if it does not wait
	Attempts   []DeliveryAttempt // the newest ones, oldest first
	CreatedAt  time.Time
}

func (*Delivery) row() {}

// DeliveryTest is the type of deliveries that test a webhook.
const DeliveryTest = "test"

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

// The states of deliveries.
const (
	DeliveryWaiting   DeliveryStatus = "waiting"   // it is sent at NextAt
	DeliveryDelivered DeliveryStatus = "delivered" // the receiver has accepted it
	DeliveryFailed    DeliveryStatus = "failed"    // the receiver has not accepted it, and it is not sent again unless somebody asks for it
)

// DeliveryAttempt is one attempt to send a delivery.
type DeliveryAttempt struct {
	At       time.Time     `json:"at"`
	Took     time.Duration `json:"took"`
	Code     int           `json:"code,omitempty"`     // status of the response; 0 if there was none
	Response string        `json:"response,omitempty"` // its beginning
	Error    string        `json:"error,omitempty"`    // why there was no response
}

// Accepted reports whether the receiver has accepted the delivery.
func (a DeliveryAttempt) Accepted() bool { return a.Code >= 200 && a.Code < 300 }

// Gone reports whether the receiver wants no more requests.
func (a DeliveryAttempt) Gone() bool { return a.Code == 410 }

// Text returns the outcome for people, such as "500" or "connection refused".
func (a DeliveryAttempt) Text() string {
	if a.Code == 0 {
		return a.Error
	}
	return strconv.Itoa(a.Code)
}

// maxRememberedAttempts is how many attempts Delivery.Attempts holds.
const maxRememberedAttempts = 20

// deliveryPauses are the pauses before the second and later attempts, as the Standard Webhooks specification recommends them:
// about three days in total.
var deliveryPauses = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// maxPause is the longest pause that a receiver can ask for with Retry-After.
const maxPause = 24 * time.Hour

// DeliveryID returns the id of the delivery of the event to the webhook. It is the same each time. webhook is the webhook's uid.
func DeliveryID(webhook string, seq int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", webhook, seq))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// RecordAttempt adds an attempt, and sets the status and the time of the next attempt. retryAfter is the pause that the receiver
// asks for; 0 if it asks for none. jitter, from 0 to 1, shortens or lengthens the pause by up to a tenth, so that deliveries that
// have failed together are not sent together again.
func (d *Delivery) RecordAttempt(a DeliveryAttempt, retryAfter time.Duration, jitter float64) {
	if d.Attempts = append(d.Attempts, a); len(d.Attempts) > maxRememberedAttempts {
		d.Attempts = d.Attempts[len(d.Attempts)-maxRememberedAttempts:]
	}
	d.NextAt = time.Time{}
	switch {
	case a.Accepted():
		d.Status = DeliveryDelivered
		return
	case d.Tries >= len(deliveryPauses) || d.Type == DeliveryTest || a.Gone():
		d.Status = DeliveryFailed
		return
	}
	pause := time.Duration(float64(deliveryPauses[d.Tries]) * (0.9 + 0.2*jitter))
	d.Tries++
	d.NextAt = a.At.Add(a.Took).Add(max(pause, min(retryAfter, maxPause)))
}

// Requeue makes the delivery due now, whatever its status is.
func (d *Delivery) Requeue(now time.Time) { d.Status, d.Tries, d.NextAt = DeliveryWaiting, 0, now }

// DeliveryFilter selects deliveries. The zero value selects none.
type DeliveryFilter struct {
	ID         string         // the one with the id; the other fields then have no effect
	WebhookUID string         // those of this webhook
	Status     DeliveryStatus // only those with the status; empty: all
	Since      time.Time      // only those that were created then or later
	Waiting    bool           // those that wait, in the order in which they are due; otherwise the newest come first
	Undue      time.Time      // of those that wait, only those that have failed since they were queued, or that are due later than this time
	Offset     int            // leaves out this many
	Limit      int            // at most this many; 0: none
}

// DeliveryCount counts deliveries.
type DeliveryCount struct {
	WebhookUID string
	Status     DeliveryStatus
	Number     int
	Oldest     time.Time // when the oldest of them was created
}

// DeliveryReader reads deliveries of webhooks.
type DeliveryReader interface {
	// Deliveries returns the matching deliveries.
	Deliveries(f DeliveryFilter) ([]*Delivery, error)

	// CountDeliveries counts the deliveries that wait or have failed, by webhook and status: those of the webhook with the uid, or of all
	// webhooks if it is empty.
	CountDeliveries(webhook string) ([]DeliveryCount, error)
}
