"""What the dashboard shows: estimates now and by day, by group, and as published."""
