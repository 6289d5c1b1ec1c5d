package coder_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
)

// TestFaults makes Coder answer first all requests and then only writes with the same fault. It checks the errors and the number
// of attempts.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		reason fleet.Reason // empty: BACKEND_UNAVAILABLE
		read   string       // words in the errors of reading requests
		create string       // words in the error of a request that creates something; empty: the same
		tries  int          // attempts for reading requests; 0: one
	}{
		"401": {
			answer: func(w http.ResponseWriter) { writeError(w, 401, "You are signed out or your session has expired.") },
			read:   "Coder does not accept the token",
		},
		"403": {
			answer: func(w http.ResponseWriter) { writeError(w, 403, "Unauthorized to create workspace.") },
			reason: fleet.ReasonPermissionDenied, read: "the Coder token does not permit it: Unauthorized to create workspace",
		},
		"403 as 404": {
			answer: func(w http.ResponseWriter) {
				writeError(w, 404, "Resource not found or you do not have access to this resource")
			},
			reason: fleet.ReasonProvisioningFailed, read: "the user of Fleet's token may not see it", create: "do not have access",
		},
		"409": {
			answer: func(w http.ResponseWriter) { writeError(w, 409, "A workspace build is already active.") },
			read:   "already active", create: "the name is in use",
		},
		"429": {
			answer: func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "7")
				writeError(w, 429, "You've been rate limited for sending more than 512 requests in 1m0s.")
			},
			read: "rate limit",
		},
		"500": {
			answer: func(w http.ResponseWriter) { writeError(w, 500, "Internal error fetching templates.") },
			read:   "status 500: Internal error fetching templates",
		},
		"502":            {answer: func(w http.ResponseWriter) { writePage(w, 502) }, read: "status 502", tries: 2},
		"a web page":     {answer: func(w http.ResponseWriter) { writePage(w, 200) }, read: "something in front of Coder answers with status 200"},
		"401 of a proxy": {answer: func(w http.ResponseWriter) { writePage(w, 401) }, read: "something in front of Coder answers with status 401"},
		"404 of a proxy": {answer: func(w http.ResponseWriter) { writePage(w, 404) }, read: "something in front of Coder answers with status 404"},
		"cut connection": {answer: func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, read: "cannot be reached", tries: 2},
		"cut in the middle": {
			answer: func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write([]byte(`[{"id":`))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			},
			read: "cannot be reached",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFrozenCoder(t) // the time in Retry-After does not pass
			x.fault = func(w http.ResponseWriter, _ *http.Request) bool {
				c.answer(w)
				return true
			}
			check := func(err error, words string) {
				t.Helper()
				e, ok := errors.AsType[*fleet.Error](err)
				require.True(t, ok, "%T %v", err, err)
				require.Equal(t, cmp.Or(c.reason, fleet.ReasonBackendUnavailable), e.Reason, e.Error())
				require.Contains(t, e.Message, words)
				require.NotContains(t, e.Error(), "<")
				require.NotContains(t, e.Error(), "the-secret-token")
				if name == "429" {
					require.InDelta(t, 7, e.RetryAfter.Seconds(), 1)
				}
			}
			p := x.newPlace()
			_, err := p.Projects(t.Context())
			check(err, c.read)
			require.Equal(t, max(c.tries, 1), x.count("GET templates"))
			if name == "429" {
				_, err = p.Projects(t.Context())
				check(err, c.read)
				require.Equal(t, 1, x.count("GET templates"), "no request may be sent before the time in Retry-After is over")
			}

			// Reads succeed, and writes fail.
			x.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet {
					c.answer(w)
				}
				return r.Method != http.MethodGet
			})
			a := x.agent()
			a.WorkspaceID, a.Name, a.Project = "", "new", "setup"
			_, err = x.newPlace().Provision(t.Context(), a)
			check(err, cmp.Or(c.create, c.read))
			require.Equal(t, 1, x.count("POST workspaces"), "a request that creates something must not be repeated")
		})
	}
}

// TestUnreadableTemplate checks that a temporary error of Coder about the template of an agent does not mean that its project does not
// exist, and that a project without a template does not exist even then.
func TestUnreadableTemplate(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]fleet.Reason{
		http.StatusInternalServerError: fleet.ReasonBackendUnavailable, http.StatusForbidden: fleet.ReasonProjectNotFound, http.StatusNotFound: fleet.ReasonProjectNotFound,
	} {
		x, p := newFakePlace(t)
		x.fault = func(w http.ResponseWriter, r *http.Request) bool {
			fails := strings.HasSuffix(r.URL.Path, "/rich-parameters")
			if fails {
				writeError(w, status, "no")
			}
			return fails
		}
		for project, want := range map[string]fleet.Reason{"setup": want, "Setup": want, "other": fleet.ReasonProjectNotFound} {
			_, err := p.Roles(t.Context(), project)
			requireReason(t, err, want, project)
		}
		all, err := p.Projects(t.Context())
		require.NoError(t, err)
		require.Empty(t, all)
	}
}

// TestOnlyCoderReportsDeletion returns different answers that say that a workspace does not exist. Only Coder's own answer about the
// workspace means that it was deleted.
func TestOnlyCoderReportsDeletion(t *testing.T) {
	t.Parallel()
	x, p := newFakePlace(t)
	path := "/api/v2/workspaces/" + x.ws.ID.String()
	setAnswer := func(answer func(http.ResponseWriter)) {
		x.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				answer(w)
			}
			return r.URL.Path == path
		})
	}
	for _, status := range []int{http.StatusNotFound, http.StatusGone} {
		setAnswer(func(w http.ResponseWriter) { writePage(w, status) })
		_, err := p.Inspect(t.Context(), x.agent())
		requireReason(x.T, err, fleet.ReasonBackendUnavailable)
		_, err = p.Delete(t.Context(), x.agent())
		x.Equal(fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "the workspace was not deleted, so the deletion must be retried: %v", err)
		_, err = p.Connect(x.agent()).Follow(t.Context(), x.newRun("x"), "", func(fleet.Output) error { return nil })
		requireReason(x.T, err, fleet.ReasonBackendUnavailable)
	}
	setAnswer(func(w http.ResponseWriter) { _ = writeJSON(w, map[string]any{}) })
	_, err := p.Inspect(t.Context(), x.agent())
	requireReason(x.T, err, fleet.ReasonBackendUnavailable)
	setAnswer(func(w http.ResponseWriter) { writeError(w, http.StatusGone, "This service has moved.") })
	w, err := p.Inspect(t.Context(), x.agent())
	x.NoError(err)
	x.True(w.Missing, "%+v", w)
	setAnswer(func(w http.ResponseWriter) {
		writeError(w, http.StatusGone, "Workspace \""+x.ws.ID.String()+"\" was deleted, you can view")
	})
	w, err = p.Inspect(t.Context(), x.agent())
	x.NoError(err)
	x.Equal(fleet.StateDeleted, w.State)
}

// TestTokenExpires checks that a token that Coder no longer accepts counts as an outage. Nothing was delivered, so the caller
// must retry with the next token, and must not conclude anything about a run.
func TestTokenExpires(t *testing.T) {
	t.Parallel()
	x := newFakeCoder(t)
	x.addRunner()
	p := x.newPlace()
	a := x.agent()
	_, err := p.Inspect(t.Context(), a)
	x.NoError(err)
	x.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/@") { // Coder redirects to its login page
			w.Header().Set("Location", "/login")
			w.WriteHeader(http.StatusSeeOther)
			return true
		}
		writeError(w, http.StatusUnauthorized, "You are signed out or your session has expired.")
		return true
	})
	newAgent := a
	newAgent.WorkspaceID, newAgent.Name, newAgent.UID = "", "new", "new"
	for what, call := range map[string]func() error{
		"inspect":   func() error { _, err := p.Inspect(t.Context(), a); return err },
		"provision": func() error { _, err := p.Provision(t.Context(), newAgent); return err },
		"start":     func() error { return p.Start(t.Context(), a) },
		"stop":      func() error { return p.Stop(t.Context(), a) },
		"delete":    func() error { _, err := p.Delete(t.Context(), a); return err },
		"dispatch":  func() error { return p.Connect(a).Dispatch(t.Context(), x.newRun("x")) },
		"interrupt": func() error { return p.Connect(a).Interrupt(t.Context(), x.newRun("x"), true) },
	} {
		err := call()
		x.Equal(fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "%s: %v", what, err)
		x.ErrorIs(err, coder.ErrToken, what)
	}
}

func TestUnreachable(t *testing.T) {
	x, p := newFakePlace(t)
	x.server.Close()
	_, err := p.List(t.Context())
	requireReason(t, err, fleet.ReasonBackendUnavailable)
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(p.Connect(x.agent()).Dispatch(t.Context(), x.newRun("hello"))))
}

// TestMessageWithLostAnswer drops the answer to a message. The message must not be sent again.
func TestMessageWithLostAnswer(t *testing.T) {
	for name, lose := range map[string]func(http.ResponseWriter){
		"502": func(w http.ResponseWriter) { writePage(w, 502) },
		"cut": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFakeCoder(t)
			x.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost || x.count("POST message") < 2 { // the first message only clears the input line
					return false
				}
				x.acceptMessage(httptest.NewRecorder(), r) // discards the answer
				lose(w)
				return true
			}
			r := x.newRun("once only")
			require.NoError(t, x.newPlace().Connect(x.agent()).Dispatch(t.Context(), r))
			require.Equal(t, []string{"A spec.\n\nonce only"}, x.prompts())
			r.Again = true
			require.NoError(t, x.newPlace().Connect(x.agent()).Dispatch(t.Context(), r), "another server must not send the message again either")
			require.Len(t, x.prompts(), 1)
		})
	}
}

// TestLostMessage drops a message before it reaches the agent, as can happen after an agent was restarted. The message must be
// sent again, and must arrive once.
func TestLostMessage(t *testing.T) {
	t.Parallel()
	x := newFakeCoder(t)
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && x.count("POST message") <= 2 {
			writePage(w, http.StatusBadGateway)
			return true
		}
		return false
	}
	require.NoError(t, x.newPlace().Connect(x.agent()).Dispatch(t.Context(), x.newRun("hello")))
	require.Len(t, x.prompts(), 1)
}

// TestBusyBriefly makes AgentAPI refuse a message once, because the agent is not idle. The message must be sent again. Then the
// agent works, and must refuse another task.
func TestBusyBriefly(t *testing.T) {
	t.Parallel()
	x := newFakeCoder(t)
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && x.count("POST message") == 2 {
			refuseMessage(w, "failed to send message: message can only be sent when the agent is waiting for user input")
			return true
		}
		return false
	}
	require.NoError(t, x.newPlace().Connect(x.agent()).Dispatch(t.Context(), x.newRun("hello")))
	require.Len(t, x.prompts(), 1)

	err := x.newPlace().Connect(x.agent()).Dispatch(t.Context(), x.newRun("something else"))
	require.Equal(t, fleet.ReasonAgentBusy, fleet.ReasonOf(err), "an agent that works must refuse another task")
}

// followInBackground follows the run from the cursor until it ends. outputs receives the outputs, and done the outcome. An error of
// Follow fails the test.
func (x *fakeCoder) followInBackground(p *coder.Place, r fleet.Run, cursor string) (outputs chan fleet.Output, done chan fleet.Outcome) {
	outputs, done = make(chan fleet.Output, 100), make(chan fleet.Outcome, 1)
	go func() {
		o, err := p.Connect(x.agent()).Follow(x.Context(), r, cursor, func(out fleet.Output) error {
			outputs <- out
			return nil
		})
		if err != nil {
			x.T.Errorf("follow the run: %v", err)
		}
		done <- o
	}()
	return outputs, done
}

// TestFollowStream follows a run from its start, and from a cursor as another server does. Both must receive the outputs that are
// missing, and the same outcome.
func TestFollowStream(t *testing.T) {
	t.Parallel()
	x, p := newFakePlace(t)
	r := x.newRun("explain")
	x.NoError(p.Connect(x.agent()).Dispatch(t.Context(), r))
	outputs, done := x.followInBackground(p, r, "")
	x.showScreen("* thinking 1/9", "running")
	step := <-outputs
	x.True(step.IsStep)
	x.Equal("thinking 1/9", step.Text)
	x.showScreen("first\nsecond\n* thinking 2/9", "running")
	text := <-outputs
	x.Equal("first\nsecond\n", text.Text)

	// Another server follows the run from the cursor.
	other, otherDone := x.followInBackground(x.newPlace(), r, text.Cursor)
	x.showScreen("first\nsecond\nthird", "stable")
	for _, f := range []struct {
		outputs chan fleet.Output
		done    chan fleet.Outcome
	}{{outputs, done}, {other, otherDone}} {
		o := <-f.done
		x.Equal("third\n", (<-f.outputs).Text)
		x.Empty(f.outputs)
		x.Equal(fleet.Outcome{Status: fleet.TaskCompleted, Summary: "first\nsecond\nthird", Payload: []byte("first\nsecond\nthird"), Terminal: true}, o)
	}
}

// TestFollowCutStreams interrupts every event stream after a short time.
func TestFollowCutStreams(t *testing.T) {
	t.Parallel()
	x := newFakeCoder(t)
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/events") {
			ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
			defer cancel()
			x.streamConversation(w, r.WithContext(ctx))
			return true
		}
		return false
	}
	p := x.newPlace()
	r := x.newRun("explain")
	x.NoError(p.Connect(x.agent()).Dispatch(t.Context(), r))
	outputs, done := x.followInBackground(p, r, "")
	x.showScreen("one\ntwo\n* busy 1/2", "running")
	x.Equal("busy 1/2", (<-outputs).Text)
	x.Equal("one\ntwo\n", (<-outputs).Text)
	x.showScreen("one\ntwo\nthree", "stable")
	o := <-done
	x.Equal("three\n", (<-outputs).Text)
	x.Equal(fleet.TaskCompleted, o.Status)
}

// TestStuckAgentAPI makes an agent repeat its previous answer. AgentAPI treats a repeated answer as no answer, and waits. Fleet
// must then change the screen with a key, so that the run completes.
func TestStuckAgentAPI(t *testing.T) {
	t.Parallel()
	x := newFakeCoder(t)
	x.fault = func(_ http.ResponseWriter, r *http.Request) bool {
		x.mu.Lock()
		gotBackspace := len(x.raw) > 0 && x.raw[len(x.raw)-1] == "\x7f"
		x.mu.Unlock()
		if gotBackspace && strings.HasSuffix(r.URL.Path, "/status") {
			x.showScreen("Ready.", "stable")
		}
		return false
	}
	p := x.newPlace()
	r := x.newRun("are you ready?")
	r.Timeout = 30 * 24 * time.Hour // longer than the clock advances even on a slow machine
	x.NoError(p.Connect(x.agent()).Dispatch(t.Context(), r))
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				x.clockOffset.Add(int64(5 * time.Second))
			}
		}
	}()
	_, done := x.followInBackground(p, r, "")
	o := <-done
	x.Equal(fleet.TaskCompleted, o.Status)
	x.Equal("Ready.", o.Summary)
}

// TestAgentGoesAway checks why a run fails whose agent can no longer continue it.
func TestAgentGoesAway(t *testing.T) {
	for name, c := range map[string]struct {
		change func(x *fakeCoder)
		reason string
	}{
		"workspace stopped": {func(x *fakeCoder) { x.ws.LatestBuild.Status = codersdk.WorkspaceStatusStopping }, "its workspace was stopped"},
		"workspace deleted": {func(x *fakeCoder) { x.deleted = true }, "its workspace was deleted"},
		"AgentAPI restarted": {func(x *fakeCoder) {
			x.messages = []map[string]any{{"id": 0, "role": "agent", "content": "Ready again.", "time": time.Now()}}
		}, "the agent was restarted while it worked, and no longer knows the task"},
		"out of reach": {func(x *fakeCoder) { x.clockOffset.Add(int64(time.Hour)) }, "the agent could not be reached for 2m0s: AgentAPI does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, p := newFakePlace(t)
			r := x.newRun("work")
			r.Timeout = 30 * 24 * time.Hour
			x.NoError(p.Connect(x.agent()).Dispatch(t.Context(), r))
			outputs, done := x.followInBackground(p, r, "")
			x.showScreen("* working 1/9", "running")
			<-outputs
			cutOff := name != "AgentAPI restarted"
			x.update(func() {
				if name != "out of reach" {
					c.change(x)
				}
			})
			if cutOff {
				misses := 0
				cut := func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.HasPrefix(r.URL.Path, "/@") {
						return false
					}
					x.mu.Lock()
					defer x.mu.Unlock()
					if misses++; misses == 3 && name == "out of reach" {
						c.change(x)
					}
					writePage(w, http.StatusBadGateway)
					return true
				}
				x.setFault(cut)
			}
			x.server.CloseClientConnections()
			o := <-done
			x.Equal(fleet.TaskFailed, o.Status)
			x.Equal(c.reason, o.Reason)
		})
	}
}

// TestReports checks that the agent's own reports count, and the reports of the screen watcher do not.
func TestReports(t *testing.T) {
	type s = codersdk.WorkspaceAppStatus
	for name, c := range map[string]struct {
		reports []s // oldest first
		status  fleet.TaskStatus
		reason  string
	}{
		"none":                             {nil, fleet.TaskCompleted, ""},
		"the watcher's":                    {[]s{{State: "working"}, {State: "idle"}}, fleet.TaskCompleted, ""},
		"complete, then the watcher's":     {[]s{{State: "working"}, {State: "complete", Message: "all done"}, {State: "idle"}}, fleet.TaskCompleted, ""},
		"failure, then the watcher's":      {[]s{{State: "failure", Message: "no compiler"}, {State: "idle"}}, fleet.TaskFailed, "the agent reported: no compiler"},
		"failure, repeated by the watcher": {[]s{{State: "failure", Message: "no compiler"}, {State: "idle", Message: "no compiler"}}, fleet.TaskFailed, "the agent reported: no compiler"},
		"failure, then it went on":         {[]s{{State: "failure", Message: "no compiler"}, {State: "working", Message: "found one"}}, fleet.TaskCompleted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFakeCoder(t)
			x.reports = []s{{State: "failure", Message: "of an earlier task", CreatedAt: time.Now().Add(-30 * time.Second)}}
			p := x.newPlace()
			r := x.newRun("work")
			x.NoError(p.Connect(x.agent()).Dispatch(t.Context(), r))
			x.update(func() {
				for _, report := range c.reports {
					report.CreatedAt = time.Now()
					x.reports = append([]s{report}, x.reports...)
				}
			})
			x.showScreen("I have worked.", "stable")
			_, done := x.followInBackground(p, r, "")
			o := <-done
			x.Equal(c.status, o.Status)
			x.Equal(c.reason, o.Reason)
			x.Equal("I have worked.", o.Summary)
		})
	}
}

// TestManyInspections inspects a workspace many times in a short time. Coder must get a few requests for lists instead of many
// requests for the workspace.
func TestManyInspections(t *testing.T) {
	t.Parallel()
	x := newFrozenCoder(t)
	p := x.newPlace()
	for range 200 {
		w, err := p.Inspect(t.Context(), x.agent())
		x.NoError(err)
		x.Equal(fleet.StateRunning, w.State)
	}
	x.Equal(21, x.count("GET "+x.ws.ID.String())) // the first one tells the place which workspace the agent has
	x.Equal(1, x.count("GET workspaces"))
	x.clockOffset.Add(int64(time.Millisecond))
	x.NoError(p.Stop(t.Context(), x.agent()))
	before := x.count("GET " + x.ws.ID.String())
	_, err := p.Inspect(t.Context(), x.agent())
	x.NoError(err)
	x.Greater(x.count("GET "+x.ws.ID.String()), before, "a list that is older than a change must not be used")
}
