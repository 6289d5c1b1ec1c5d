//go:build cgo

package run

import (
	"log/slog"
	"sync"

	"fleet/internal/fleet"
	"fleet/internal/price"
)

// gate stands between a run and its models. When the run is over, the gate admits no more requests. gatedModel then returns an
// empty answer to the library, which ends the run normally.
type gate struct {
	prices  *price.List
	log     *slog.Logger
	secrets *secrets
	isOver  func() bool // reports whether no new request may start
	onLimit func()      // called when the limit of requests is reached
	onUsage func()      // called after each report of usage

	allowancePath string          // path of driver.AllowanceFile; empty: there is no limit
	quit          <-chan struct{} // closed when the run's tools must end, see run.end
	onWait        func()          // called when a request has waited for a larger allowance for a while

	mu         sync.Mutex
	requests   int                       // number of admitted requests
	unreported []requestUsage            // usage that takeUsage has not returned yet
	total      fleet.Usage               // usage of all answered requests
	usd        float64                   // cost of total
	active     map[*exchange]*gatedModel // active requests
}

// usageSoFar returns the usage and cost of the run, active requests included.
func (g *gate) usageSoFar() (fleet.Usage, float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	total, usd := g.total, g.usd
	for x, m := range g.active {
		if t, _ := x.state(); t != nil {
			total.InputTokens, total.OutputTokens = total.InputTokens+t.inputTotal(), total.OutputTokens+t.output
			usd += g.priceOf(m.ID()).USD(t.toFleet())
		}
	}
	return total, usd
}

// priceOf returns the price of the model provider/model. The price of an unknown model is 0.
func (g *gate) priceOf(id string) fleet.Price {
	p, _ := g.prices.Of(id)
	return p
}

// begin records an active request.
func (g *gate) begin(x *exchange, m *gatedModel) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active == nil {
		g.active = map[*exchange]*gatedModel{}
	}
	g.active[x] = m
}

// end records the end of an active request, and adds its usage. u is nil if the usage is unknown.
func (g *gate) end(x *exchange, u *requestUsage) {
	g.mu.Lock()
	delete(g.active, x)
	if u != nil {
		g.unreported = append(g.unreported, *u)
		g.total.Model = u.model
		g.total.InputTokens += u.inputTotal()
		g.total.OutputTokens += u.output
		g.usd += u.usd
	}
	g.mu.Unlock()
	if u != nil {
		g.onUsage()
	}
}

// takeUsage returns the usage of each request that was answered since the last call.
func (g *gate) takeUsage() []requestUsage {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.unreported
	g.unreported = nil
	return u
}

// requestCount returns the number of requests that were admitted so far.
func (g *gate) requestCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

// admit reports whether the next request may be sent, and counts it if so. If the run has already sent limit requests, admit
// ends the run.
func (g *gate) admit(limit int) bool {
	if g.isOver() {
		return false
	}
	g.mu.Lock()
	full := g.requests >= limit
	if !full {
		g.requests++
	}
	g.mu.Unlock()
	if full {
		g.onLimit()
	}
	return !full
}
