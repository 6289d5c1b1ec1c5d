package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCredentialReport(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	c := &Credential{Name: "max"}
	report := func(window string, used float64, reached bool, resets time.Time) bool {
		return c.RecordLimit(UsageLimit{Window: window, Utilization: used, Reached: reached, ResetsAt: resets}, now)
	}
	require.True(t, report("five_hour", 0.5, false, now.Add(time.Hour)))
	require.False(t, report("five_hour", 0.505, false, now.Add(time.Hour)), "a change of less than minUtilizationChange is not recorded")
	require.True(t, report("five_hour", 0.52, false, now.Add(time.Hour)))
	require.Nil(t, c.UsedUpWindow(now))
	require.Nil(t, c.ReservedWindow(now, 0.2))
	require.NotNil(t, c.ReservedWindow(now, 0.5))
	require.Nil(t, c.ReservedWindow(now.Add(time.Hour), 0.5), "the window has ended")
	require.Empty(t, c.Waits(now, 0))

	require.True(t, report("seven_day", 0.9, true, now.Add(1000*time.Hour)))
	w := c.UsedUpWindow(now)
	require.Equal(t, now.Add(maxWindowLength), w.ResetsAt, "no window lasts longer than maxWindowLength")
	require.EqualValues(t, 1, w.Utilization)
	waits := c.Waits(now, 0.5)
	require.Len(t, waits, 1)
	require.Equal(t, Wait{Reason: WaitUsageWindow, Subject: "max", Text: `the seven day window of the credential "max" is used up`, Until: w.ResetsAt}, waits[0])
	require.True(t, report("seven_day", 0.1, false, now.Add(maxWindowLength)), "the window has room again")
	require.Nil(t, c.UsedUpWindow(now))

	require.True(t, report("", 0, true, time.Time{}))
	require.Equal(t, now.Add(unknownWindowLength), c.UsedUpWindow(now).ResetsAt, "the report does not say when the window ends")
	require.False(t, c.RecordSuccess(now), "the run began before the report")
	require.True(t, c.RecordSuccess(now.Add(1)))
	require.Nil(t, c.UsedUpWindow(now))

	for i := range 2 * maxWindows {
		report(fmt.Sprint("w", i), 0.1, false, now)
	}
	require.Len(t, c.Windows, maxWindows)
	require.True(t, report("w5x", 1, true, now.Add(time.Hour)), "a window that is used up counts nevertheless")
	require.Equal(t, "w5x", c.UsedUpWindow(now).Window)
	require.Len(t, c.Windows, maxWindows)
	require.True(t, slices.IsSortedFunc(c.Windows, func(a, b UsageWindow) int { return strings.Compare(a.Window, b.Window) }))
}

func TestCredentialHold(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	c := &Credential{Name: "max", Hold: &CredentialHold{Code: CodeAuth, Reason: "401", TaskID: "t", At: now}}
	require.Equal(t, CredentialHeld, c.StateAt(now))
	require.Equal(t, WaitHeld, c.Waits(now, 0)[0].Reason)
	require.True(t, c.Scarce(now))
	require.True(t, c.Release())
	require.False(t, c.Release())
	require.Equal(t, CredentialOK, c.StateAt(now))
}

func TestValidateCredentials(t *testing.T) {
	t.Parallel()
	require.NoError(t, ValidateCredentials([]CredentialSetting{{Name: "local/claude", KeepFree: 20}, {Name: "max"}}, map[string]string{"the project web": "max"}))
	for message, c := range map[string][]CredentialSetting{
		`credentials[0]: name is "a b"`:                          {{Name: "a b"}},
		"credentials[1]: the credential max is there twice":      {{Name: "max"}, {Name: "max"}},
		"credentials[0]: keep_free is 100: give 0 to 99":         {{Name: "max", KeepFree: 100}},
		`the project web has the credential "max", which is not`: nil,
	} {
		require.ErrorContains(t, ValidateCredentials(c, map[string]string{"the project web": "max"}), message)
	}
}
