"""Where a cluster's token is found, for the remedies of errors."""

WHERE_A_TOKEN_LIES = "The token lies in $HEADRACE_HOME/cluster/token of the coordinator, or where its --token-file says"
