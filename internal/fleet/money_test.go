package fleet

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMicros(t *testing.T) {
	t.Parallel()
	for usd, text := range map[float64]string{0: "$0.00", 0.05: "$0.05", 1.5: "$1.50", 0.123456: "$0.123456", 12: "$12.00", -0.5: "-$0.50", 0.0000014: "$0.000001"} {
		require.Equal(t, text, MicrosOf(usd).String())
	}
	require.Equal(t, "-$9223372036854.775808", Micros(math.MinInt64).String())
	require.Equal(t, 0.35, MicrosOf(0.35).USD())
	require.Equal(t, "1,234,567 tokens", TokensText(1234567))
	require.Equal(t, "999 tokens", TokensText(999))
}
