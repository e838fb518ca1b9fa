// Prometheus' answers as Grafana's data frames, named as its Prometheus data source names them.
import { DataFrame, FieldType, Labels, createDataFrame } from '@grafana/data';

export interface Series {
  metric: Labels;
  values?: Array<[number, string]>;
  value?: [number, string];
}

export interface Target {
  refId: string;
  legendFormat?: string;
  format?: string;
  instant?: boolean;
}

function legend(target: Target, labels: Labels): string {
  if (target.legendFormat) {
    return target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name: string) => labels[name] ?? '');
  }
  const { __name__: name = '', ...others } = labels;
  const pairs = Object.entries(others).map(([key, value]) => `${key}="${value}"`);
  return pairs.length ? `${name}{${pairs.join(', ')}}` : name || 'Value';
}

// One frame for each series: its times in ms and its values.
export function seriesFrames(target: Target, series: Series[]): DataFrame[] {
  return series.map(({ metric, values, value }) => {
    const samples = values ?? (value ? [value] : []);
    return createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: samples.map(([at]) => at * 1000), config: {} },
        {
          name: 'Value',
          type: FieldType.number,
          labels: metric,
          values: samples.map(([, sample]) => Number(sample)),
          config: { displayNameFromDS: legend(target, metric) },
        },
      ],
    });
  });
}

// One frame with a column for each label, as the format `table` asks for. `several`: the value's column carries the query's letter.
export function tableFrame(target: Target, series: Series[], several: boolean): DataFrame {
  const labels = [...new Set(series.flatMap(({ metric }) => Object.keys(metric)))].filter((name) => name !== '__name__').sort();
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: series.map(({ value }) => value![0] * 1000), config: {} },
      ...labels.map((name) => ({
        name,
        type: FieldType.string,
        values: series.map(({ metric }) => metric[name] ?? ''),
        config: { filterable: true },
      })),
      {
        name: several ? `Value #${target.refId}` : 'Value',
        type: FieldType.number,
        values: series.map(({ value }) => Number(value![1])),
        config: {},
      },
    ],
  });
}
