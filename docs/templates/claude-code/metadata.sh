# shellcheck shell=sh
# Prints the metadata item whose key is $1, or nothing if it does not exist. It prints no newline, because that would be part of the value.
if [ "$1" = agent_spec ]; then
  # Coder accepts 2048 bytes. If they end with half a character, it loses all four items.
  printf %s "$AGENT_SPEC_BASE64" | base64 -d | head -c 2048 | iconv -cs -f UTF-8 -t UTF-8 2>/dev/null
  exit 0
fi
cd "$HOME/work" && command -v gh >/dev/null || exit 0
case $1 in
  pull_request_url) value=$(gh pr view --json url --jq .url) ;;
  pull_request_status) value=$(gh pr view --json state,isDraft --jq 'if .isDraft then "draft" else (.state | ascii_downcase) end') ;;
  check_status)
    value=$(gh pr checks --json bucket --jq 'map(.bucket) |
      if index("fail") then "failing" elif index("pending") then "pending" elif index("pass") then "passing" else "" end')
    ;;
esac 2>/dev/null
printf %s "$value"
