// Package webhook sends signed requests to webhooks, as the Standard Webhooks specification says.
//
// Package app gives its Sender to package service, which decides what is sent and when. This package must never connect to
// an address that is not public, unless the configuration allows its host.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"fleet/internal/fleet"
	"fleet/internal/model/dial"
)

const (
	// timeout is how long a receiver may take to answer.
	timeout = 15 * time.Second
	// maxResponse is how much of a response Send returns, in bytes.
	maxResponse = 512
	// maxError is how much of an error Send returns, in bytes.
	maxError = 300
)

// Sender implements fleet.WebhookSender. Its methods are safe for concurrent use.
type Sender struct {
	client    *http.Client
	allow     []string
	userAgent string
	timeout   time.Duration
}

// New returns a sender. In addition to public hosts, it connects to the hosts in allow, each HOST or HOST:PORT. Requests name
// version, the version of this program, in their User-Agent.
func New(version string, allow []string) *Sender {
	return &Sender{
		client: &http.Client{
			Transport: dial.PublicTransport(allow...), // adds no headers for tracing, which must not leave the fleet
			// A redirect counts as a failed delivery. If a receiver moves, the owner of the webhook must change its URL.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		allow: allow, userAgent: "Fleet/" + version, timeout: timeout,
	}
}

// Check returns INVALID_ARGUMENT if no webhook can have the URL, see fleet.WebhookSender.
func (s *Sender) Check(address string) error {
	refuse := func(format string, args ...any) error {
		return fleet.InvalidField("url", format, args...)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return refuse("url is not a URL of a receiver: give one such as https://example.com/fleet") // without the value, which may have a secret
	}
	allowed := s.allows(u)
	switch ip, err := netip.ParseAddr(u.Hostname()); {
	case u.User != nil:
		return refuse("url has a user or a password: leave them out, because each request is signed")
	case u.Fragment != "":
		return refuse("url has a fragment (#), which is never sent: leave it out")
	case u.Scheme == "http" && !allowed:
		return refuse("url begins with http, which anybody on the way can read: give an https URL, or ask the operator to add %s to webhooks.allow", u.Hostname())
	case !allowed && (err == nil && !dial.IsPublic(ip) || strings.EqualFold(u.Hostname(), "localhost")):
		return refuse("url names %s, which is not on the public internet: ask the operator to add it to webhooks.allow", u.Hostname())
	}
	return nil
}

// allows reports whether the configuration allows the host of the URL.
func (s *Sender) allows(u *url.URL) bool {
	return slices.ContainsFunc(s.allow, func(host string) bool {
		return strings.EqualFold(host, u.Hostname()) || strings.EqualFold(host, u.Host)
	})
}

// Send sends the request, see fleet.WebhookSender.
func (s *Sender) Send(ctx context.Context, p fleet.WebhookRequest) fleet.WebhookResponse {
	if err := s.Check(p.URL); err != nil { // the configuration may have changed
		return fleet.WebhookResponse{Error: fleet.PublicMessage(err)}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(p.Body))
	if err != nil {
		return fleet.WebhookResponse{Error: "the URL is not valid"}
	}
	signatures := make([]string, len(p.Secrets))
	for i, secret := range p.Secrets {
		w, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			signatures[i], err = w.Sign(p.ID, p.At, p.Body)
		}
		if err != nil {
			return fleet.WebhookResponse{Error: "the request could not be signed"}
		}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", s.userAgent)
	r.Header.Set(standardwebhooks.HeaderWebhookID, p.ID)
	r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(p.At.Unix(), 10))
	r.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	resp, err := s.client.Do(r)
	if err != nil {
		return fleet.WebhookResponse{Error: s.failureReason(ctx, err)}
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1)) // the status counts, even if the body breaks off
	return fleet.WebhookResponse{Code: resp.StatusCode, Body: shortenResponse(body), RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
}

// failureReason returns why err happened instead of a response. It leaves out the URL, which may contain a secret, and the
// address of a host that must not be called.
func (s *Sender) failureReason(ctx context.Context, err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	switch {
	case errors.Is(err, dial.ErrNotPublic):
		return "the host is not on the public internet: ask the operator to add it to webhooks.allow"
	case errors.Is(ctx.Err(), context.Canceled):
		return "the server was stopped during the request"
	case ctx.Err() != nil:
		return fmt.Sprintf("no answer within %s", s.timeout)
	}
	return fleet.Shorten(err.Error(), maxError)
}

// shortenResponse returns the beginning of a response as valid text without control characters, except line breaks and tabs.
func shortenResponse(body []byte) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(body), ""))
	return fleet.Shorten(strings.TrimSpace(text), maxResponse)
}

// retryAfter returns how long the header asks to wait. The header is a number of seconds, or a date. retryAfter returns 0 if
// it is empty or invalid.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
