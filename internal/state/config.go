package state

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fleet/internal/fleet"
)

// Config configures the service and the reconciler. The zero value works.
type Config struct {
	// CreateWait is how long creating, starting, stopping, restarting and deleting an agent wait for completion before
	// they return the progress; 0 means 45 s.
	CreateWait time.Duration
	// MessageWait is how long sending a message waits for the delivery before it returns that the message is stored; 0
	// means 2 s.
	MessageWait time.Duration
	// TaskTimeout limits tasks whose request sets no limit; 0 means 24 h.
	TaskTimeout time.Duration
	// StopGrace is how long an interrupted run may take to end before it is killed; 0 means the place's own value, else
	// 5 s.
	StopGrace time.Duration
	// StallTimeout is how long a run may produce no output before its task counts as stalled. A run whose tools are
	// running is not stalled. 0 means 10 min, a negative value never.
	StallTimeout time.Duration
	// PollInterval is how often a place lists all workspaces while nothing changes; 0 means the place's own value, else
	// 5 s.
	PollInterval time.Duration
	// ListingGap is how long a listing counts as recent at least, even if PollInterval is very short; 0 means 5 s.
	ListingGap time.Duration
	// FirstListingWait is how long calls wait for a place's first listing, counted from the start of the server; 0 means 5 s.
	FirstListingWait time.Duration
	// StartLimit is how long the start of one task of the queue may take before the others go on; 0 means 1 s.
	StartLimit time.Duration
	// PoolBackoff is how long a pool waits after the first failed creation of an agent; 0 means 5 s.
	PoolBackoff time.Duration
	// ProbeTimeout is how long a health check waits for the store. A store that is only slow still counts as writable. 0 means 1 s.
	ProbeTimeout time.Duration
	// LeaseTTL is how long other servers wait before they take over the agents of a dead server; 0 means 10 s.
	LeaseTTL time.Duration
	// Limits limit what principals and projects may have, and how many calls the server works on.
	Limits fleet.Limits
	// Pools are the settings of pools in the configuration.
	Pools []fleet.PoolSetting
	// Credentials are the settings of credentials in the configuration.
	Credentials []fleet.CredentialSetting
	// AgeStep is how long a pending task waits until it counts as one priority higher; 0 means 1 min.
	AgeStep time.Duration
	// MaxOutput is how much output of a task is stored in the event log, in bytes; 0 means 16 MiB.
	MaxOutput int64
	// Price returns the price of a model, and false if the price is unknown; nil means that all are unknown.
	Price func(model string) (fleet.Price, bool)
	// Schema compiles the output schemas of tasks; nil means that tasks cannot have one.
	Schema fleet.SchemaCompiler
	// Cron reads the cron expressions of schedules; nil means that schedules cannot have one.
	Cron fleet.CronParser
	// MaxBundle limits the bundle of unpushed work that is kept of a deleted agent, in bytes; 0 means 64 MiB.
	MaxBundle int64
	// Retention is how long events and request ids are kept; 0 means 30 days, a negative value forever.
	// PayloadRetention is how long payloads of ended tasks and bundles of deleted agents are kept; 0 means 90 days, a
	// negative value forever. Tasks are kept until somebody deletes them. PruneEvery is how often expired rows are removed;
	// 0 means 1 h.
	Retention, PayloadRetention, PruneEvery time.Duration
	// AuditRetention is how long entries of the audit log are kept; 0 means a year, a negative value forever.
	AuditRetention time.Duration
	// MaxCounted is the maximum number of matching tasks that are counted; 0 means 10,000. For a search for a text it is a
	// tenth of that.
	MaxCounted int
	// Workers is the maximum number of workspaces that are created, started, stopped or deleted concurrently; 0 means 16.
	// The maximum of shorter calls (dispatch, interrupt, inspect) is four times as high.
	Workers int
	// OpTimeout is how long a place may take to create, start, stop or delete a workspace before the call is retried; 0
	// means 15 min. CallTimeout is the same for other calls, except Follow; 0 means 1 min.
	OpTimeout, CallTimeout time.Duration
	// CollectNotice is how long Fleet may collect the work of a run before it shows that it is collecting; 0 means 2 s.
	// CollectWait is how long a stop or a deletion waits for the collection; 0 means 1 min.
	CollectNotice, CollectWait time.Duration

	Webhooks Webhooks
	// BaseURL returns the URL of this Fleet, for links. It may be nil, or return "" if it is not known.
	BaseURL func() string

	// Replica is the name of this server among the servers that share the store; "" if no other server uses the store. The
	// names of places that are bound to its machine end with it; see fleet.PlaceOn.
	Replica string
	// OtherServers reads from the machines of other servers; nil means that callers must call those servers themselves.
	OtherServers OtherServers
	// OtherPlaces are places for agents of other toolsets, in addition to those of the fleet.
	OtherPlaces []fleet.Place
	// DegradedParts returns degraded parts other than the store, the leases and the places; nil means that there are none.
	DegradedParts func() []fleet.DegradedPart
	// Reload reads the configuration again and applies it. It returns the file that was read and what has changed, for people.
	// If it fails, nothing has changed. It is nil if the configuration comes from no file.
	Reload func(ctx context.Context) (file string, changes []string, err error)
	// MCPURL returns the base address of this server's MCP endpoints, for agents that call Fleet themselves. It may be nil,
	// or return "" if there are none.
	MCPURL func() string

	// Span begins a span of work on the agent, or on its task, in the trace of the call that requested the work. It returns
	// the context of the span and the function that ends the span. The task is nil for work on the workspace. A nil Span
	// traces nothing.
	Span func(ctx context.Context, name string, a *fleet.Agent, t *fleet.Task) (_ context.Context, end func(error))
	// OnEventSent is called when an event was sent to a watcher that waited for it. lag is the time since the event was
	// recorded. It may be nil.
	OnEventSent func(lag time.Duration)

	// OnTaskStarted is called when a task of the queue has started on an agent that it has waited for. delay is the time since
	// the agent's last task ended, or since the agent changed in another way. It may be nil.
	OnTaskStarted func(delay time.Duration)
	// OnTicks is called when schedules have handled ticks. The outcomes are the constants Tick... of package fleet. It may be
	// nil.
	OnTicks func(outcome string, ticks int)

	Now    func() time.Time // nil means the store's clock
	NewID  func() string    // nil means random UUIDs
	Logger *slog.Logger     // nil means no log
	// PullRequest opens pull requests; nil means that the server knows no forge.
	PullRequest fleet.PullRequester

	// Fault is called at named points, so that a test can end the process there. The points are the constants Fault... of packages
	// reconcile and service. It may be nil.
	Fault func(point string)
}

// Webhooks configures which webhooks the server accepts and how it sends their deliveries.
type Webhooks struct {
	Sender fleet.WebhookSender // nil: the server has no webhooks
	// MaxPerOwner is how many webhooks an owner may have; 0 means 20.
	MaxPerOwner int
	// MaxWaiting is how many deliveries of a webhook may wait; 0 means 10,000. Further events stay in the log until there is
	// room, and no later than their retention.
	MaxWaiting int
	// Retention is how long deliveries are kept; 0 means 14 days. It must be longer than the time for which
	// they are retried.
	Retention time.Duration
	// OnAttempt is called after each attempt. The outcomes are the statuses of deliveries; waiting means that the attempt failed and is
	// repeated. It may be nil.
	OnAttempt func(outcome fleet.DeliveryStatus, took time.Duration)
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) { *d = cmp.Or(*d, v) }
	set(&c.CreateWait, 45*time.Second)
	if c.Schema == nil {
		c.Schema = func([]byte) (func([]byte) []string, error) {
			return nil, errors.New("this server cannot check schemas")
		}
	}
	if c.Cron == nil {
		c.Cron = func(string, *time.Location) (func(time.Time) time.Time, error) {
			return nil, errors.New("this server cannot read cron expressions")
		}
	}
	if c.Price == nil {
		c.Price = func(string) (fleet.Price, bool) { return fleet.Price{}, false }
	}
	set(&c.MessageWait, 2*time.Second)
	set(&c.TaskTimeout, 24*time.Hour)
	set(&c.StallTimeout, 10*time.Minute)
	set(&c.ListingGap, defaultListingGap)
	set(&c.FirstListingWait, 5*time.Second)
	set(&c.StartLimit, time.Second)
	set(&c.PoolBackoff, 5*time.Second)
	set(&c.ProbeTimeout, time.Second)
	set(&c.LeaseTTL, 10*time.Second)
	set(&c.AgeStep, fleet.DefaultAgeStep)
	set(&c.OpTimeout, 15*time.Minute)
	set(&c.CallTimeout, time.Minute)
	set(&c.CollectNotice, 2*time.Second)
	set(&c.CollectWait, time.Minute)
	set(&c.Retention, 30*24*time.Hour)
	set(&c.PayloadRetention, 90*24*time.Hour)
	set(&c.AuditRetention, 365*24*time.Hour)
	set(&c.PruneEvery, time.Hour)
	if c.MaxOutput == 0 {
		c.MaxOutput = 16 << 20
	}
	if c.MaxBundle == 0 {
		c.MaxBundle = DefaultMaxBundle
	}
	if c.MaxCounted == 0 {
		c.MaxCounted = 10_000
	}
	if c.Workers == 0 {
		c.Workers = 16
	}
	c.Webhooks.MaxPerOwner = cmp.Or(c.Webhooks.MaxPerOwner, 20)
	c.Webhooks.MaxWaiting = cmp.Or(c.Webhooks.MaxWaiting, 10_000)
	set(&c.Webhooks.Retention, 14*24*time.Hour)
	if c.Webhooks.OnAttempt == nil {
		c.Webhooks.OnAttempt = func(fleet.DeliveryStatus, time.Duration) {}
	}
	if c.BaseURL == nil {
		c.BaseURL = func() string { return "" }
	}
	if c.NewID == nil {
		c.NewID = newUUID
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Span == nil {
		c.Span = func(ctx context.Context, _ string, _ *fleet.Agent, _ *fleet.Task) (context.Context, func(error)) {
			return ctx, func(error) {}
		}
	}
	if c.OnEventSent == nil {
		c.OnEventSent = func(time.Duration) {}
	}
	if c.OnTaskStarted == nil {
		c.OnTaskStarted = func(time.Duration) {}
	}
	if c.OnTicks == nil {
		c.OnTicks = func(string, int) {}
	}
	if c.PullRequest == nil {
		c.PullRequest = func(context.Context, fleet.PullRequest) (string, error) {
			return "", fleet.Errorf(fleet.ReasonUnimplemented, "this server opens no pull requests").Next("open it on the pages of the repository")
		}
	}
	if c.Fault == nil {
		c.Fault = func(string) {}
	}
	return c
}

// Time returns the current time in UTC with the precision of the store.
func (c Config) Time() time.Time { return c.Now().UTC().Truncate(time.Microsecond) }

// newUUID returns a random UUID, version 4 (RFC 9562).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
