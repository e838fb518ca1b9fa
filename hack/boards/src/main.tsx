// Draws one board of `window.drawing` with Grafana's panel components, and says so in the document's title when it has.
import {
  applyFieldOverrides,
  cacheFieldDisplayNames,
  createTheme,
  DataFrame,
  DateTime,
  dateTime,
  FieldConfigOptionsRegistry,
  FieldConfigSource,
  FieldDisplay,
  FieldType,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  standardTransformers,
  standardTransformersRegistry,
  ThemeContext,
  TimeRange,
  transformDataFrame,
} from '@grafana/data';
import { BarGauge, BigValue, BigValueTextMode, GlobalStyles, PanelChrome, TimeSeries, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { ReactElement, useLayoutEffect } from 'react';
import { createRoot } from 'react-dom/client';
import { firstValueFrom } from 'rxjs';

import { Series, seriesFrames, tableFrame, Target } from './frames';

interface Panel {
  id: number;
  type: string;
  title: string;
  description?: string;
  gridPos: { x: number; y: number; w: number; h: number };
  options: any;
  fieldConfig: FieldConfigSource;
  targets: Target[];
  transformations?: any[];
}

interface Drawing {
  board: { title: string; panels: Panel[] };
  chosen: Record<string, string>;
  start_s: number;
  end_s: number;
  width_px: number;
  // By panel and query.
  answers: Record<string, Record<string, Series[]>>;
}

const MARGIN = 8;
const CELL = 30;
const HEADER = 64;
const theme = createTheme({ colors: { mode: 'light' } });
const clock = (at: DateTime) => at.toISOString().slice(0, 19).replace('T', ' ');
const plain = (text: string) => text;

standardTransformersRegistry.setInit(() =>
  [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer].map((info: any) => ({
    id: info.id,
    name: info.name,
    transformation: async () => info,
    editor: () => null,
    imageDark: '',
    imageLight: '',
  }))
);

// Every property that the panel's JSON sets: Grafana's panels each declare the same list, with editors for them.
function registryOf(config: FieldConfigSource): FieldConfigOptionsRegistry {
  const standard = ['unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'thresholds', 'mappings', 'color', 'links'];
  const custom = new Set([
    ...Object.keys(config.defaults.custom ?? {}),
    ...config.overrides.flatMap(({ properties }) =>
      properties.filter(({ id }) => id.startsWith('custom.')).map(({ id }) => id.slice('custom.'.length))
    ),
  ]);
  const item = (path: string, isCustom: boolean) => ({
    id: isCustom ? `custom.${path}` : path,
    path,
    name: path,
    isCustom,
    editor: () => null,
    override: () => null,
    process: (value: unknown) => value,
    shouldApply: () => true,
  });
  const registry = new FieldConfigOptionsRegistry();
  registry.setInit(() => [...standard.map((path) => item(path, false)), ...[...custom].map((path) => item(path, true))] as any);
  return registry;
}

async function framesOf(panel: Panel, answers: Record<string, Series[]>): Promise<DataFrame[]> {
  const several = panel.targets.length > 1;
  const raw = panel.targets.flatMap((target) => {
    const series = answers[target.refId] ?? [];
    if (target.format === 'table') {
      return series.length ? [tableFrame(target, series, several)] : [];
    }
    return seriesFrames(target, series);
  });
  const transformed = await firstValueFrom(transformDataFrame(panel.transformations ?? [], raw));
  const frames = applyFieldOverrides({
    data: transformed,
    fieldConfig: panel.fieldConfig,
    fieldConfigRegistry: registryOf(panel.fieldConfig),
    replaceVariables: plain,
    theme,
    timeZone: 'utc',
  });
  cacheFieldDisplayNames(frames);
  if (panel.type === 'timeseries') {
    // As Grafana's panel does: what is no finite number is a gap.
    frames.forEach(({ fields }) =>
      fields
        .filter(({ type }) => type === FieldType.number)
        .forEach((field) => (field.values = field.values.map((value) => (Number.isFinite(value) ? value : null))))
    );
  }
  return frames;
}

function sized(panel: Panel, frames: DataFrame[], timeRange: TimeRange, width: number, height: number): ReactElement {
  const { options, fieldConfig } = panel;
  const values = () =>
    getFieldDisplayValues({
      data: frames,
      fieldConfig,
      reduceOptions: options.reduceOptions,
      replaceVariables: plain,
      sparkline: panel.type === 'stat' && options.graphMode !== 'none',
      theme,
      timeZone: 'utc',
    });
  const nothing = (
    <div style={{ display: 'grid', placeItems: 'center', height, color: theme.colors.text.secondary }}>
      {fieldConfig.defaults.noValue ?? 'No data'}
    </div>
  );
  switch (panel.type) {
    case 'timeseries':
      return frames.length ? (
        <TimeSeries frames={frames} width={width} height={height} timeRange={timeRange} timeZone="utc" legend={options.legend} options={options} />
      ) : (
        nothing
      );
    case 'stat':
    case 'bargauge':
      return (
        <VizRepeater
          getValues={values}
          getAlignmentFactors={(shown: FieldDisplay[]) => getDisplayValueAlignmentFactors(shown)}
          source={frames}
          width={width}
          height={height}
          orientation={options.orientation}
          itemSpacing={8}
          minVizHeight={options.minVizHeight ?? 40}
          maxVizHeight={options.maxVizHeight ?? 300}
          minVizWidth={8}
          autoGrid={panel.type === 'stat'}
          renderValue={({ value, width, height, alignmentFactors }: any) =>
            panel.type === 'stat' ? (
              <BigValue
                value={value.display}
                sparkline={value.sparkline}
                width={width}
                height={height}
                theme={theme}
                colorMode={options.colorMode}
                graphMode={options.graphMode}
                justifyMode={options.justifyMode}
                textMode={BigValueTextMode.Value}
                wideLayout={options.wideLayout}
                percentChangeColorMode={options.percentChangeColorMode}
                alignmentFactors={alignmentFactors}
              />
            ) : (
              <BarGauge
                value={value.display}
                field={value.field}
                display={value.view?.getFieldDisplayProcessor(value.colIndex)}
                width={width}
                height={height}
                theme={theme}
                orientation={options.orientation}
                displayMode={options.displayMode}
                showUnfilled={options.showUnfilled}
                namePlacement={options.namePlacement}
                valueDisplayMode={options.valueMode}
                alignmentFactors={alignmentFactors}
              />
            )
          }
        />
      );
    case 'table':
      return frames.length && frames[0].length ? (
        <TableNG data={frames[0]} width={width} height={height} sortBy={options.sortBy} fieldConfig={fieldConfig} timeRange={timeRange} />
      ) : (
        nothing
      );
    default:
      throw new Error(`a panel of the type ${panel.type} cannot be drawn`);
  }
}

function Board({ drawing, frames, done }: { drawing: Drawing; frames: Map<number, DataFrame[]>; done: () => void }) {
  useLayoutEffect(done);
  const { board, chosen, width_px: boardWidth } = drawing;
  const from = dateTime(drawing.start_s * 1000);
  const to = dateTime(drawing.end_s * 1000);
  const timeRange: TimeRange = { from, to, raw: { from, to } };
  const cell = (boardWidth - MARGIN) / 24;
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  const choice = Object.entries(chosen).map(([name, value]) => `${name}: ${value}`);
  return (
    <div style={{ position: 'relative', width: boardWidth, height: HEADER + bottom * (CELL + MARGIN) + MARGIN, background: theme.colors.background.canvas }}>
      <div style={{ position: 'absolute', left: 2 * MARGIN, top: MARGIN, ...(theme.typography.h3 as object) }}>
        {board.title}
        <div style={{ ...(theme.typography.bodySmall as object), color: theme.colors.text.secondary }}>
          {[...choice, `${clock(from)} to ${clock(to)} UTC`].join('   ·   ')}
        </div>
      </div>
      {board.panels.map((panel) => {
        const { x, y, w, h } = panel.gridPos;
        const width = w * cell - MARGIN;
        const height = h * (CELL + MARGIN) - MARGIN;
        const place = { position: 'absolute' as const, left: MARGIN + x * cell, top: HEADER + y * (CELL + MARGIN), width, height };
        if (panel.type === 'row') {
          return (
            <div key={panel.title} style={{ ...place, ...(theme.typography.h5 as object), display: 'flex', alignItems: 'center' }}>
              {panel.title}
            </div>
          );
        }
        return (
          <div key={panel.id} style={place}>
            <PanelChrome title={panel.title} width={width} height={height} padding={panel.type === 'table' ? 'none' : 'md'}>
              {(innerWidth, innerHeight) => sized(panel, frames.get(panel.id)!, timeRange, innerWidth, innerHeight)}
            </PanelChrome>
          </div>
        );
      })}
    </div>
  );
}

async function main() {
  const drawing: Drawing = (window as any).drawing;
  const shown = drawing.board.panels.filter(({ type }) => type !== 'row');
  const frames = new Map<number, DataFrame[]>();
  for (const panel of shown) {
    frames.set(panel.id, await framesOf(panel, drawing.answers[panel.id] ?? {}));
  }
  createRoot(document.getElementById('board')!).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <Board drawing={drawing} frames={frames} done={() => (document.title = 'drawn')} />
    </ThemeContext.Provider>
  );
}

main().catch((error) => {
  document.title = `failed: ${error.stack ?? error}`;
});
